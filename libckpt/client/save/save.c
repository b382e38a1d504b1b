#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/quoted.h"
#include "client/session/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- handles ----------------------------------------------------------------------------------------------------- */

void snapshot_put(struct ckpt_snapshot *snap)
{
	if (!snap || atomic_fetch_sub_explicit(&snap->refs, 1, memory_order_acq_rel) != 1)
		return;
	stage_put(snap->stage);
	free(snap);
}

static struct ckpt_snapshot *snapshot_get(struct ckpt_snapshot *snap)
{
	atomic_fetch_add_explicit(&snap->refs, 1, memory_order_relaxed);
	return snap;
}

static struct ckpt_snapshot *snapshot_new(ckpt *s, struct stage *stage, struct step_id id, ckpt_target target)
{
	struct ckpt_snapshot *snap = calloc(1, sizeof(*snap));
	if (!snap)
		return NULL;
	snap->refs = 1;
	snap->s = s;
	snap->stage = stage_get(stage);
	snap->begun = stage_newest(stage);
	snap->id = id;
	snap->target = target;
	return snap;
}

void ckpt_snapshot_free(ckpt_snapshot *snap)
{
	/* In a child the arena is not there. */
	if (!snap || snap->stage->pid != getpid())
		return;
	stage_give_up(snap->stage, snap->slot, snap->id);
	snapshot_put(snap);
}

uint64_t ckpt_snapshot_step(const ckpt_snapshot *snap)
{
	return snap ? snap->id.step : UINT64_MAX;
}

/* ---- begin ------------------------------------------------------------------------------------------------------- */

static int check_begin(ckpt *s, uint64_t step, ckpt_target target, struct err *err)
{
	struct wire_welcome daemon;
	int rc = session_check(s, err);
	if (rc)
		return rc;
	if (step > STEP_MAX)
		return err_set(err, -EINVAL, "step %" PRIu64 " is not below 10^12", step);
	if (target != CKPT_MEMORY && target != CKPT_STORAGE)
		return err_set(err, -EINVAL, "target %d is neither CKPT_MEMORY nor CKPT_STORAGE", (int)target);
	if (atomic_load(&s->undefined))
		return err_set(err, -EPERM,
			       "a restore failed half-way: the state is undefined until a restore succeeds");
	rc = service_check(s, &daemon, err);
	if (!rc && target == CKPT_STORAGE && !daemon.storage)
		return err_set(err, -EINVAL, "the daemon on %s has no store: only CKPT_MEMORY is possible",
			       daemon.node);
	return rc;
}

int session_check_epoch(ckpt *s, const struct stage *stage, struct err *err)
{
	uint32_t now = atomic_load_explicit(&stage_head(stage)->epoch, memory_order_acquire);
	uint32_t mine = atomic_load(&s->epoch);
	if (atomic_load(&stage->lost))
		return err_set(err, -ESTALE, "the daemon lost the arenas: call ckpt_join again");
	if (mine && now == ARENA_EPOCH_OVER)
		return err_set(err, -ESTALE, "the world of the job has changed: call ckpt_join again");
	if (!mine || now != mine)
		return err_set(err, -ESTALE, "the job is in epoch %u, this rank joined %u: call ckpt_join again", now,
			       mine);
	return 0;
}

/* The daemon shows a step as soon as any rank has begun it; captured it can only be with this rank's part. What this process has
 * begun counts even if it failed: a name in the store is never used twice. */
static int check_new(const ckpt *s, const struct stage *stage, struct step_id id, struct err *err)
{
	struct shown shown;
	bool seen = stage_shown(stage, id, &shown) && shown.level >= LEVEL_CAPTURED;
	for (uint32_t i = 0; i < stage->arenas.own->nslots; i++)
		seen |= stage_holds(stage, i, id);
	for (unsigned i = 0; i < BEGUN_MAX; i++)
		seen |= s->begun[i].epoch == id.epoch && s->begun[i].step == id.step;
	return seen ? err_set(err, -EALREADY, "step %" PRIu64 " was saved in this epoch", id.step) : 0;
}

static int say_busy(const struct stage *stage, int rc, const char *advice, struct err *err)
{
	const struct arena *own = stage->arenas.own;
	char list[400];
	int at = 0;
	for (uint32_t i = 0; i < own->nslots && at < (int)sizeof(list); i++) {
		const struct arena_slot *slot = &stage_head(stage)->slots[i];
		struct shown shown;
		if (!capture_slot_ready(&stage->capture, i)) {
			at += snprintf(list + at, sizeof(list) - (size_t)at, "%sone that is not pinned yet",
				       i ? ", " : "");
			continue;
		}
		bool known = stage_shown(stage, (struct step_id){slot->step, slot->epoch}, &shown);
		at += snprintf(list + at, sizeof(list) - (size_t)at, "%sstep %" PRIu64 " (%s)", i ? ", " : "",
			       slot->step,
			       !known                          ? "not seen by the daemon yet"
			       : shown.level >= LEVEL_DURABLE  ? "durable"
			       : shown.level >= LEVEL_CAPTURED ? "captured"
							       : "being captured");
	}
	return err_set(err, rc, "all %u slots are in use: %s; %s", own->nslots, list, advice);
}

/* Only the rank takes slots, and under s->save: what is free stays free. */
static int free_slot(const struct stage *stage)
{
	for (uint32_t i = 0; i < stage->arenas.own->nslots; i++)
		if (capture_slot_ready(&stage->capture, i) &&
		    atomic_load_explicit(&stage_head(stage)->slots[i].state, memory_order_acquire) == SLOT_FREE)
			return (int)i;
	return -EBUSY;
}

/* In which epoch the state began without a restore; processes that go on without one after a loss go on with the same. What was restored
 * out of memory alone may never have been in the store: it has begun where that began. 0: it came from storage. */
static uint32_t began(ckpt *s, struct step_id id)
{
	if (!s->restored.epoch && !s->began)
		s->began = id.epoch;
	return s->began;
}

static int claim_slot(ckpt *s, const struct stage *stage, struct ckpt_snapshot *snap)
{
	struct arena_slot *slot = &stage_head(stage)->slots[snap->slot];
	uint32_t expected = SLOT_FREE;
	slot->step = snap->id.step;
	slot->epoch = snap->id.epoch;
	slot->target = (uint32_t)snap->target;
	slot->flags =
		(stage->capture.digests ? 0 : SLOT_NO_SOURCE_DIGESTS) | (stage->capture.votes ? SLOT_WITNESSES : 0);
	slot->began = began(s, snap->id);
	slot->begin_ns = clock_now();
	atomic_store_explicit(&slot->fenced, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->done, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->progress, 0, memory_order_relaxed);
	/* Publishes all of the above to the daemon. */
	return atomic_compare_exchange_strong_explicit(&slot->state, &expected, SLOT_CAPTURING, memory_order_acq_rel,
						       memory_order_relaxed)
		       ? 0
		       : -EBUSY;
}

static bool ended(const struct ckpt_snapshot *snap)
{
	struct shown shown;
	return atomic_load(&snap->failed) ||
	       (stage_shown(snap->stage, snap->id, &shown) && (shown.error || shown.level >= LEVEL_DURABLE));
}

static void remember(ckpt *s, struct ckpt_snapshot *snap)
{
	snapshot_put(s->unfenced);
	s->unfenced = snapshot_get(snap);
	if (snap->target != CKPT_STORAGE)
		return;
	unsigned kept = 0;
	for (unsigned i = 0; i < s->npending; i++) {
		if (ended(s->pending[i]) || (!i && s->npending == PENDING_MAX))
			snapshot_put(s->pending[i]);
		else
			s->pending[kept++] = s->pending[i];
	}
	s->pending[kept++] = snapshot_get(snap);
	s->npending = kept;
}

/* A capture that becomes nothing, as of an epoch that is over: nothing reads the state once this returns, but for -ETIMEDOUT and -EINVAL: it is
 * still read, or a stream records. With the save lock held, so that no other capture is begun in the slot. */
static int end_capture(struct ckpt_snapshot *snap, void *stream, uint64_t deadline, struct err *err)
{
	struct stage *stage = snap->stage;
	struct patience patience = beat_patience(snap->s, deadline);
	if (!stage_was_last(stage, snap->slot, snap->id))
		return 0;
	capture_cancel(&stage->capture, snap->slot);
	int rc = capture_fence(&stage->capture, snap->slot, FENCE_ALL, stream, &patience, err);
	return rc == -ETIMEDOUT || rc == -EINVAL ? rc : 0;
}

/* Of several devices some may have begun before one could not. */
static void end_half(ckpt *s, struct ckpt_snapshot *snap, void *stream)
{
	uint32_t ms;
	struct err ignored = {0};
	(void)end_capture(snap, stream, session_deadline(s, -1, &ms), &ignored);
}

static int begin_in_slot(ckpt *s, struct stage *stage, struct ckpt_snapshot *snap, void *stream, struct err *err)
{
	int slot = free_slot(stage);
	if (slot >= 0) {
		snap->slot = (uint32_t)slot;
		slot = claim_slot(s, stage, snap);
	}
	if (slot < 0) {
		arena_leave_out(stage_head(stage), snap->id);
		stage_ring(stage);
		return say_busy(stage, -EBUSY, "go on without this save", err);
	}
	if (!step_compare(arena_left_out(stage_head(stage)), snap->id)) /* tried again */
		arena_leave_out(stage_head(stage), (struct step_id){0});
	s->begun[s->nbegun++ % BEGUN_MAX] = snap->id;
	/* The daemon is woken before the copy is started: whoever it pushes aside for its short look must find no thread that
	 * copies for milliseconds waiting in its place. */
	stage_ring(stage);
	int rc = capture_launch(&stage->capture, &s->table, snap->slot, stream, s->settings.strict, err);
	if (!rc) {
		remember(s, snap);
	} else {
		end_half(s, snap, stream);
		stage_ring(stage);
	}
	if (stage->capture.nactive > 1)
		service_poke(s);
	return rc ? err_prefix(err, rc, "step %" PRIu64, snap->id.step) : 0;
}

static int begin(ckpt *s, struct stage *stage, uint64_t step, ckpt_target target, void *stream, ckpt_snapshot **out,
		 struct err *err)
{
	LOCK_SCOPE(&s->save);
	int rc = session_check_epoch(s, stage, err);
	if (rc)
		return rc;
	if (s->unfenced)
		stage_give_up(s->unfenced->stage, s->unfenced->slot, s->unfenced->id);
	struct step_id id = {step, atomic_load(&s->epoch)};
	rc = check_new(s, stage, id, err);
	if (rc)
		return rc;
	struct ckpt_snapshot *snap = snapshot_new(s, stage, id, target);
	if (!snap)
		return err_set(err, -ENOMEM, "no memory for a snapshot");
	rc = begin_in_slot(s, stage, snap, stream, err);
	if (rc)
		snapshot_put(snap);
	else
		*out = snap;
	return rc;
}

/* What a save keeps this thread from, for who decides how often to save. */
static void note_stall(const struct stage *stage, ckpt_target target, uint64_t since, bool another)
{
	struct arena_head *head = stage_head(stage);
	struct arena_stall *const of[] = {&head->asked.stall, &head->storage_stall};
	uint64_t ns = clock_now() - since;
	for (int i = 0; i <= (target == CKPT_STORAGE); i++) {
		atomic_fetch_add_explicit(&of[i]->ns, ns, memory_order_relaxed);
		atomic_fetch_add_explicit(&of[i]->saves, another, memory_order_relaxed);
	}
}

int ckpt_begin(ckpt *s, uint64_t step, ckpt_target target, void *stream, ckpt_snapshot **out)
{
	struct err err = {0};
	if (out)
		*out = NULL;
	int rc = check_begin(s, step, target, &err);
	if (!rc && !out)
		rc = err_set(&err, -EINVAL, "`out` is NULL: ckpt_begin has nowhere to put the snapshot");
	if (rc)
		return session_fail(s, rc, &err);
	struct stage *stage = session_stage(s);
	if (!stage)
		return session_fail(s, err_set(&err, -EINVAL, "call ckpt_join before the first save"), &err);
	uint64_t since = clock_now();
	rc = begin(s, stage, step, target, stream, out, &err);
	if (!rc)
		note_stall(stage, target, since, true);
	stage_put(stage);
	return rc ? session_fail(s, rc, &err) : 0;
}

/* A slot that is free stays so until this rank takes it. */
static int wait_slot(ckpt *s, const struct stage *stage, uint64_t deadline, uint32_t ms, struct err *err)
{
	for (;;) {
		char text[40];
		uint32_t seen = atomic_load_explicit(&stage_head(stage)->wake, memory_order_acquire);
		int rc = session_check_epoch(s, stage, err);
		if (rc || free_slot(stage) >= 0)
			return rc;
		rc = service_check(s, NULL, err);
		if (rc)
			return rc;
		if (clock_now() >= deadline) {
			snprintf(text, sizeof(text), "waited for %u ms", ms);
			return say_busy(stage, -ETIMEDOUT, text, err);
		}
		beat_sleep(s, stage, seen, deadline);
	}
}

int ckpt_wait_slot(ckpt *s, int timeout_ms)
{
	struct err err = {0};
	uint32_t ms;
	int rc = session_check(s, &err);
	if (rc)
		return session_fail(s, rc, &err);
	uint64_t deadline = session_deadline(s, timeout_ms, &ms);
	struct stage *stage = session_stage(s);
	if (!stage)
		return session_fail(s, err_set(&err, -EINVAL, "call ckpt_join before the first save"), &err);
	rc = wait_slot(s, stage, deadline, ms, &err);
	stage_put(stage);
	return rc ? session_fail(s, rc, &err) : 0;
}

/* ---- fence ------------------------------------------------------------------------------------------------------- */

static int set_fenced(struct ckpt_snapshot *snap, struct arena_slot *slot, struct err *err)
{
	uint32_t unfenced = 0;
	if (atomic_compare_exchange_strong_explicit(&slot->fenced, &unfenced, 1, memory_order_acq_rel,
						    memory_order_acquire)) {
		stage_ring(snap->stage);
		return 0;
	}
	return unfenced == 1 ? 0 : err_set(err, -ECANCELED, "it was given up: another save began before its fence");
}

static void keep_failure(struct ckpt_snapshot *snap, int rc, const struct err *err)
{
	int none = 0;
	if (atomic_load(&snap->failed))
		return;
	memcpy(snap->why, err->text, sizeof(snap->why));
	atomic_compare_exchange_strong(&snap->failed, &none, rc);
}

void save_end_unfenced(ckpt *s, uint64_t deadline)
{
	LOCK_SCOPE(&s->save);
	if (!s->unfenced)
		return;
	struct err ignored = {0};
	stage_give_up(s->unfenced->stage, s->unfenced->slot, s->unfenced->id);
	(void)end_capture(s->unfenced, NULL, deadline, &ignored);
}

bool save_is_open(const ckpt *s)
{
	const struct ckpt_snapshot *snap = s->unfenced;
	return snap && !atomic_load(&snap->failed) && !atomic_load(&snap->stage->lost) &&
	       stage_holds(snap->stage, snap->slot, snap->id) &&
	       !atomic_load(&stage_head(snap->stage)->slots[snap->slot].fenced);
}

static int fence(struct ckpt_snapshot *snap, uint32_t group, void *stream, struct err *err)
{
	uint32_t ms;
	struct stage *stage = snap->stage;
	struct arena_slot *slot = &stage_head(stage)->slots[snap->slot];
	struct patience patience = beat_patience(snap->s, session_deadline(snap->s, -1, &ms));
	if (atomic_load_explicit(&stage_head(stage)->epoch, memory_order_acquire) != snap->id.epoch) {
		LOCK_SCOPE(&snap->s->save);
		int rc = end_capture(snap, stream, patience.deadline, err);
		return rc ? rc : err_set(err, -ESTALE, "a new epoch has begun: call ckpt_join");
	}
	/* Also for one that the daemon has given up meanwhile: nothing reads the state once this returns. */
	int rc = capture_fence(&stage->capture, snap->slot, group, stream, &patience, err);
	if (rc == -ETIMEDOUT)
		return err_prefix(err, rc, "not captured after %u ms", ms);
	/* The daemon may have seen the failure first and given the snapshot up: this rank is told what it was all the same. */
	if (rc && stage_was_last(stage, snap->slot, snap->id)) {
		if (rc == -EINVAL) /* a stream records: nothing has become of the save, and the caller calls again */
			return rc;
		keep_failure(snap, rc, err);
		stage_ring(stage);
		return rc;
	}
	if (group != FENCE_ALL)
		return 0;
	LOCK_SCOPE(&snap->s->save); /* another thread's begin may be given this very slot */
	if (!stage_holds(stage, snap->slot, snap->id))
		return err_set(err, -ECANCELED, "the daemon gave it up before its fence");
	return set_fenced(snap, slot, err);
}

/* How long a fence waits for the next epoch, and how often it looks whether the daemon is there, whose end wakes nobody. */
#define PAUSE_NS (30 * CLOCK_NS_PER_S)
#define PAUSE_LOOK_NS (200 * CLOCK_NS_PER_MS)

/* The world changes with this save, as long as somebody is there who can have it change, and the save can become something. */
static bool pauses(const struct ckpt_snapshot *snap)
{
	struct shown shown;
	struct err ignored;
	const struct stage *stage = snap->stage;
	uint64_t step = atomic_load(&stage_head(stage)->pause);
	return step && snap->id.step >= step && !atomic_load(&stage->lost) && !atomic_load(&snap->failed) &&
	       !(stage_shown(stage, snap->id, &shown) && shown.level < LEVEL_CAPTURED && shown.error) &&
	       !service_check(snap->s, NULL, &ignored);
}

/* What is computed after a save with which the world changes would be computed again: here it is not begun. */
static int wait_for_epoch(const struct ckpt_snapshot *snap, struct err *err)
{
	const struct arena_head *head = stage_head(snap->stage);
	uint32_t ms;
	/* The daemon looks at the slots after it has set `pause`: either this sees that, or the save was seen to be an earlier one. */
	atomic_thread_fence(memory_order_seq_cst);
	uint64_t deadline = min_u64(session_deadline(snap->s, -1, &ms), clock_deadline(PAUSE_NS));
	for (;;) {
		uint32_t seen = atomic_load(&head->wake);
		if (atomic_load(&head->epoch) != snap->id.epoch)
			return err_set(err, -ESTALE, "a new epoch has begun: call ckpt_join");
		uint64_t now = clock_now();
		if (!pauses(snap) || now >= deadline)
			return 0;
		beat_sleep(snap->s, snap->stage, seen, min_u64(deadline, now + PAUSE_LOOK_NS));
	}
}

/* In what the snapshot is of: the session may be given another place meanwhile. */
static int find_group(const struct stage *stage, const char *group, struct err *err)
{
	const struct registration *reg = &stage->arenas.own->reg;
	for (uint32_t i = 0; i < reg->nentries; i++)
		if (!strcmp(reg->entries[i].group, group))
			return 0;
	return err_set(err, -EINVAL, "no tensor is registered in a group %s", quoted(group).text);
}

static int fence_of(ckpt_snapshot *snap, const char *group, void *stream)
{
	struct err err = {0};
	if (!snap)
		return session_refuse(NULL, SNAPSHOT_NULL);
	int rc = session_check(snap->s, &err);
	int number = rc || !group ? -1 : capture_group(&snap->stage->capture, group);
	bool read = !rc && (!group || number >= 0 || snap->stage->capture.votes); /* the digests read all that votes */
	if (!rc && group && number < 0)
		rc = find_group(snap->stage, group, &err);
	uint64_t since = clock_now();
	if (!rc && read)
		rc = fence(snap, !group ? FENCE_ALL : number < 0 ? PLAN_GROUPS_MAX : (uint32_t)number, stream, &err);
	if (!rc)
		note_stall(snap->stage, snap->target, since, false);
	if (!rc && !group)
		rc = wait_for_epoch(snap, &err);
	if (!rc)
		return 0;
	err_prefix(&err, rc, "step %" PRIu64, snap->id.step);
	return session_fail(snap->s, rc, &err);
}

int ckpt_fence(ckpt_snapshot *snap, void *stream)
{
	return fence_of(snap, NULL, stream);
}

int ckpt_fence_group(ckpt_snapshot *snap, const char *group, void *stream)
{
	if (snap && !group)
		return session_refuse(snap->s, "the group is NULL: ckpt_fence is for all groups");
	return fence_of(snap, group, stream);
}
