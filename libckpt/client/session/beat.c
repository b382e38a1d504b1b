#include "base/clock.h"
#include "client/session/session.h"
#include "format/arena/losses.h"

#include <stdio.h>
#include <unistd.h>

/* The flight record of the own arena, or NULL: before ckpt_join, without a session and in a child there is none. The stage must be put. */
static struct arena_flight *flight_of(ckpt *s, struct stage **stage)
{
	*stage = NULL;
	if (!s || !atomic_load_explicit(s->alive, memory_order_relaxed))
		return NULL;
	*stage = session_stage(s);
	return *stage ? &stage_head(*stage)->flight : NULL;
}

/* Once for each restore. */
static void note_step(struct arena_entry *entry, uint64_t step, uint64_t now)
{
	uint64_t loaded = atomic_load_explicit(&entry->loaded_ns, memory_order_relaxed);
	if (atomic_load_explicit(&entry->stepped_ns, memory_order_relaxed) < loaded &&
	    step > atomic_load_explicit(&entry->step, memory_order_relaxed))
		atomic_store_explicit(&entry->stepped_ns, now, memory_order_release);
}

static void note_beat(ckpt *s, struct arena_head *head, uint64_t step, ckpt_phase phase)
{
	struct arena_flight *flight = &head->flight;
	atomic_store_explicit(&s->beats, gettid(), memory_order_relaxed);
	atomic_store_explicit(&flight->step, step, memory_order_relaxed);
	atomic_store_explicit(&flight->phase, (uint32_t)phase, memory_order_relaxed);
	uint64_t now = clock_now();
	note_step(&head->entry, step, now);
	/* Last: who sees this beat sees its step and phase. */
	atomic_store_explicit(&flight->beat_ns, now, memory_order_release);
}

void ckpt_beat(ckpt *s, uint64_t step, ckpt_phase phase)
{
	struct stage *stage;
	if (flight_of(s, &stage))
		note_beat(s, stage_head(stage), step, phase);
	stage_put(stage);
}

void ckpt_beat_loss(ckpt *s, uint64_t step, ckpt_phase phase, double loss, double gradient_norm)
{
	struct stage *stage;
	if (flight_of(s, &stage)) {
		struct loss_said said = {.step = step,
					 .epoch = atomic_load_explicit(&s->epoch, memory_order_relaxed),
					 .loss = loss,
					 .gradient_norm = (float)gradient_norm};
		losses_put(&stage_head(stage)->losses, &said);
		note_beat(s, stage_head(stage), step, phase);
	}
	stage_put(stage);
}

void beat_waiting(ckpt *s)
{
	struct stage *stage;
	if (atomic_load_explicit(&s->beats, memory_order_relaxed) != gettid())
		return;
	struct arena_flight *flight = flight_of(s, &stage);
	if (flight)
		atomic_store_explicit(&flight->beat_ns, clock_now(), memory_order_release);
	stage_put(stage);
}

void beat_sleep(ckpt *s, const struct stage *stage, uint32_t seen, uint64_t deadline)
{
	beat_waiting(s);
	stage_sleep(stage, seen, min_u64(deadline, clock_deadline(BEAT_NS)));
}

static void waits_for_device(void *arg)
{
	beat_waiting(arg);
}

struct patience beat_patience(ckpt *s, uint64_t deadline)
{
	return (struct patience){.deadline = deadline, .every_ns = BEAT_NS, .waiting = waits_for_device, .arg = s};
}

void ckpt_collective_enter_typed(ckpt *s, const char *op, ckpt_dtype dtype, uint64_t seq, uint64_t bytes)
{
	struct stage *stage;
	struct arena_flight *flight = flight_of(s, &stage);
	if (flight) {
		snprintf(flight->coll_op, sizeof(flight->coll_op), "%s", op ? op : "");
		atomic_store_explicit(&flight->coll_seq, seq, memory_order_relaxed);
		atomic_store_explicit(&flight->coll_bytes, bytes, memory_order_relaxed);
		atomic_store_explicit(&stage_head(stage)->typed, arena_typed(seq, (uint8_t)dtype),
				      memory_order_relaxed);
		atomic_store_explicit(&flight->coll_since_ns, clock_now(), memory_order_relaxed);
		atomic_store_explicit(&flight->in_collective, 1, memory_order_release);
	}
	stage_put(stage);
}

void ckpt_collective_enter(ckpt *s, const char *op, uint64_t seq, uint64_t bytes)
{
	ckpt_collective_enter_typed(s, op, (ckpt_dtype)0, seq, bytes);
}

/* The thread that enters is the only writer. A process before it may have died while seq was odd. */
static void leave(struct arena_flight *flight, struct arena_waited *waited)
{
	uint64_t seq = atomic_load_explicit(&waited->seq, memory_order_relaxed) | 1;
	uint64_t ns = clock_now() - atomic_load_explicit(&flight->coll_since_ns, memory_order_relaxed);
	atomic_store_explicit(&waited->seq, seq, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&flight->in_collective, 0, memory_order_release);
	atomic_store_explicit(&waited->ns, atomic_load_explicit(&waited->ns, memory_order_relaxed) + ns,
			      memory_order_relaxed);
	atomic_store_explicit(&waited->seq, seq + 1, memory_order_release);
}

void ckpt_collective_leave(ckpt *s)
{
	struct stage *stage;
	struct arena_flight *flight = flight_of(s, &stage);
	if (flight && atomic_load_explicit(&flight->in_collective, memory_order_relaxed))
		leave(flight, &stage_head(stage)->waited);
	stage_put(stage);
}

int ckpt_should_stop(const ckpt *s)
{
	struct stage *stage;
	/* The session's own bookkeeping is not what the caller's const is about. */
	struct arena_flight *flight = flight_of((ckpt *)s, &stage);
	int stop = flight && atomic_load_explicit(&stage_head(stage)->stop, memory_order_acquire) != 0;
	stage_put(stage);
	return stop;
}
