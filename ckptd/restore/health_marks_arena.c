#include "restore/health_marks_arena.h"

#include <string.h>

_Static_assert((int)ARENA_REASON == (int)WIRE_REASON_MAX, "a reason fits");

/* Each later one of the job is at least a nanosecond later than those that are known: one that a rank has scribbled must leave room. */
#define GIVEN_AT_MAX (INT64_MAX / 2)

void verdict_keep(struct arena_verdict *at, const struct verdict_kept *verdict)
{
	uint32_t seq = atomic_load(&at->seq) | 1;
	atomic_store(&at->seq, seq);
	/* Nothing of it is there before that. */
	atomic_thread_fence(memory_order_seq_cst);
	at->epoch = verdict->id.epoch;
	at->step = verdict->id.step;
	at->given_at = verdict->given_at;
	at->unhealthy = verdict->unhealthy;
	memcpy(at->reason, verdict->reason, sizeof(at->reason));
	atomic_store(&at->seq, seq + 1);
}

bool verdict_recall(const struct arena_verdict *at, struct verdict_kept *verdict)
{
	uint32_t seq = atomic_load(&at->seq), unhealthy = at->unhealthy;
	*verdict = (struct verdict_kept){
		.id = {.step = at->step, .epoch = at->epoch}, .unhealthy = unhealthy, .given_at = at->given_at};
	memcpy(verdict->reason, at->reason, sizeof(verdict->reason));
	return !(seq & 1) && verdict->id.epoch && verdict->id.step <= STEP_MAX && unhealthy <= 1 &&
	       verdict->given_at <= GIVEN_AT_MAX && memchr(verdict->reason, 0, sizeof(verdict->reason));
}
