#include "save/health_marks_arena.h"

#include <string.h>

_Static_assert((int)ARENA_REASON == (int)WIRE_REASON_MAX, "a reason fits");

/* Each later one of the job is at least a nanosecond later than those that are known: one that a rank has scribbled must leave room. */
#define GIVEN_AT_MAX (INT64_MAX / 2)

void mark_keep(struct arena_health_mark *at, const struct kept_mark *mark)
{
	uint32_t seq = atomic_load(&at->seq) | 1;
	atomic_store(&at->seq, seq);
	/* Nothing of it is there before that. */
	atomic_thread_fence(memory_order_seq_cst);
	at->epoch = mark->id.epoch;
	at->step = mark->id.step;
	at->given_at = mark->given_at;
	at->unhealthy = mark->unhealthy;
	memcpy(at->reason, mark->reason, sizeof(at->reason));
	atomic_store(&at->seq, seq + 1);
}

bool mark_recall(const struct arena_health_mark *at, struct kept_mark *mark)
{
	uint32_t seq = atomic_load(&at->seq), unhealthy = at->unhealthy;
	*mark = (struct kept_mark){
		.id = {.step = at->step, .epoch = at->epoch}, .unhealthy = unhealthy, .given_at = at->given_at};
	memcpy(mark->reason, at->reason, sizeof(mark->reason));
	return !(seq & 1) && mark->id.epoch && mark->id.step <= STEP_MAX && unhealthy <= 1 &&
	       mark->given_at <= GIVEN_AT_MAX && memchr(mark->reason, 0, sizeof(mark->reason));
}
