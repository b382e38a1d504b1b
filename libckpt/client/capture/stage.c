#include "client/capture/stage.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>

enum { SEQLOCK_TRIES = 1000 }; /* a daemon that died while it wrote leaves an entry odd */

static int build(struct stage *stage, struct frame *f, const struct table *table, const struct device_layers *layers,
		 const struct settings *settings, struct err *err)
{
	struct wire_arena msg;
	int rc = wire_arena_decode(f->body, f->len, &msg, err);
	if (rc)
		return rc;
	stage->doorbell = frame_take_fd(f, 0);
	if (stage->doorbell < 0)
		return err_set(err, -EBADMSG, "the daemon sent no doorbell");
	fcntl(stage->doorbell, F_SETFL, O_NONBLOCK);
	rc = arenas_map(f, &msg, table->reg.rank, &table->bytes, &stage->arenas, err);
	if (rc)
		return rc;
	return capture_init(&stage->capture, stage->arenas.own, table, layers, settings, err);
}

int stage_new(struct frame *f, const struct table *table, const struct device_layers *layers,
	      const struct settings *settings, struct stage **out, struct err *err)
{
	struct stage *stage = calloc(1, sizeof(*stage));
	if (!stage)
		return err_set(err, -ENOMEM, "no memory for a stage");
	stage->refs = 1;
	stage->pid = getpid();
	stage->doorbell = stage->arenas.own_fd = -1;
	int rc = build(stage, f, table, layers, settings, err);
	if (rc) {
		arenas_unmap(&stage->arenas);
		cleanup_close(&stage->doorbell);
		free(stage);
		return rc;
	}
	*out = stage;
	return 0;
}

struct stage *stage_get(struct stage *stage)
{
	atomic_fetch_add_explicit(&stage->refs, 1, memory_order_relaxed);
	return stage;
}

void stage_put(struct stage *stage)
{
	if (!stage || atomic_fetch_sub_explicit(&stage->refs, 1, memory_order_acq_rel) != 1)
		return;
	capture_free(&stage->capture);
	arenas_unmap(&stage->arenas);
	cleanup_close(&stage->doorbell);
	free(stage);
}

bool stage_again(struct stage *stage, struct frame *f)
{
	struct wire_arena msg;
	if (wire_arena_decode(f->body, f->len, &msg, NULL) || !arenas_same(&stage->arenas, f, &msg))
		return false;
	fcntl(f->fds[0], F_SETFL, O_NONBLOCK);
	/* In place, so that a thread that rings meanwhile never finds the descriptor closed. */
	return dup3(f->fds[0], stage->doorbell, O_CLOEXEC) >= 0;
}

void stage_ring(const struct stage *stage)
{
	uint64_t one = 1;
	/* Fails only when 2^64 - 2 rings are unanswered: then one more says nothing new. */
	ssize_t ignored = write(stage->doorbell, &one, sizeof(one));
	(void)ignored;
}

bool stage_holds(const struct stage *stage, uint32_t slot, struct step_id id)
{
	const struct arena_slot *record = &stage_head(stage)->slots[slot];
	return atomic_load_explicit(&record->state, memory_order_acquire) == SLOT_CAPTURING &&
	       record->step == id.step && record->epoch == id.epoch;
}

bool stage_was_last(const struct stage *stage, uint32_t slot, struct step_id id)
{
	const struct arena_slot *record = &stage_head(stage)->slots[slot];
	/* The daemon clears the epoch when it gives a slot back. */
	return record->step == id.step && (record->epoch == id.epoch || !record->epoch);
}

void stage_give_up(const struct stage *stage, uint32_t slot, struct step_id id)
{
	struct arena_slot *record = &stage_head(stage)->slots[slot];
	uint32_t unfenced = 0;
	if (stage_holds(stage, slot, id) &&
	    atomic_compare_exchange_strong_explicit(&record->fenced, &unfenced, 2, memory_order_acq_rel,
						    memory_order_relaxed))
		stage_ring(stage);
}

/* ---- levels ------------------------------------------------------------------------------------------------------ */

static bool read_entry(const struct arena_status *entry, struct step_id *id, struct shown *out)
{
	for (int tries = 0; tries < SEQLOCK_TRIES; tries++) {
		/* The daemon stores seq with release on both sides of its writes: */
		uint32_t before = atomic_load_explicit(&entry->seq, memory_order_acquire);
		id->epoch = atomic_load_explicit(&entry->epoch, memory_order_relaxed);
		id->step = atomic_load_explicit(&entry->step, memory_order_relaxed);
		out->level = atomic_load_explicit(&entry->level, memory_order_relaxed);
		out->error = atomic_load_explicit(&entry->error, memory_order_relaxed);
		out->late_rank = atomic_load_explicit(&entry->late_rank, memory_order_relaxed);
		out->late_phase = atomic_load_explicit(&entry->late_phase, memory_order_relaxed);
		atomic_thread_fence(memory_order_acquire);
		if (!(before & 1) && atomic_load_explicit(&entry->seq, memory_order_relaxed) == before)
			return true;
		sched_yield();
	}
	return false;
}

bool stage_shown(const struct stage *stage, struct step_id id, struct shown *out)
{
	for (uint32_t i = 0; i < ARENA_STATUS; i++) {
		struct step_id found;
		struct shown entry; /* of another snapshot it tells nothing: *out stays */
		if (read_entry(&stage_head(stage)->status[i], &found, &entry) && found.epoch == id.epoch &&
		    found.step == id.step && found.epoch) {
			*out = entry;
			return true;
		}
	}
	return false;
}

/* What the ring says of a snapshot that it does not show. */
struct ring {
	bool shown;
	bool unread; /* an entry is being changed, and may be of it: nothing can be said now */
	bool room;   /* no place was ever needed for another: what was shown once is there */
	bool still;  /* one that would have given way before its own has not changed since `begun` */
};

static struct ring ring_look(const struct stage *stage, struct step_id id, uint32_t begun)
{
	struct ring ring = {0};
	for (uint32_t i = 0; i < ARENA_STATUS; i++) {
		const struct arena_status *s = &stage_head(stage)->status[i];
		struct step_id found;
		struct shown entry;
		if (!read_entry(s, &found, &entry)) {
			ring.unread = true;
			continue;
		}
		ring.room |= !found.epoch;
		ring.shown |= found.epoch && !step_compare(found, id);
		/* A number read behind the entry is never one from before it. */
		ring.still |= !arena_status_older(begun, atomic_load(&s->seq)) && !arena_status_stays(entry.late_phase);
	}
	return ring;
}

uint32_t stage_newest(const struct stage *stage)
{
	return arena_status_newest(stage_head(stage));
}

bool stage_unseen(const struct stage *stage, struct step_id id, uint32_t begun)
{
	struct ring ring = ring_look(stage, id, begun);
	return !ring.shown && !ring.unread && ring.still;
}

bool stage_dropped(const struct stage *stage, uint32_t slot, struct step_id id)
{
	/* In this order: what is shown before the slot is given back is seen behind that. */
	bool held = stage_holds(stage, slot, id);
	struct ring ring = ring_look(stage, id, 0);
	return !held && !ring.shown && !ring.unread && !ring.room;
}

void stage_sleep(const struct stage *stage, uint32_t seen, uint64_t deadline)
{
	arena_sleep(stage->arenas.own, seen, deadline);
}

void stage_wake(const struct stage *stage)
{
	arena_wake(stage->arenas.own);
}
