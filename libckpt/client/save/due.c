/* Whether a save is due: read from the schedules in the own arena, which are the same on all ranks (format/arena/schedule.h). */
#include "base/bytes.h"
#include "base/clock.h"
#include "client/session/session.h"
#include "format/arena/schedule.h"

#include <inttypes.h>

/* Longer than another node may be silent without being lost: who decides is heard, or another epoch begins. */
#define DUE_PATIENCE_NS (5 * CLOCK_NS_PER_S)

_Static_assert((int)CKPT_DUE_MEMORY == (int)DUE_MEMORY && (int)CKPT_DUE_STORAGE == (int)DUE_STORAGE,
	       "what ranks are told is what the schedule says");

static int check_due(ckpt *s, const struct stage *stage, uint64_t step, struct err *err)
{
	const struct arena_head *head = stage_head(stage);
	if (step > STEP_MAX)
		return err_set(err, -EINVAL, "step %" PRIu64 " is not below 10^12", step);
	int rc = session_check_epoch(s, stage, err);
	if (!rc && !atomic_load_explicit(&head->schedules_kept, memory_order_relaxed))
		rc = err_set(err, -EOPNOTSUPP, "the daemon is older than this call: decide by step");
	return rc;
}

static int answer(const struct schedule *s, uint64_t step, struct err *err)
{
	if (!s->memory_every && !s->storage_every)
		return err_set(err, -EOPNOTSUPP,
			       "interval is not auto: set it in [job] of ckptd's configuration, or decide by step");
	return (int)schedule_due(s, step);
}

/* Once for each schedule: from then on there are as many steps again until the next one is needed. */
static void ask_ahead(ckpt *s, const struct stage *stage, const struct schedule *now, uint64_t step)
{
	uint64_t asked = (uint64_t)now->epoch << 32 | now->number;
	if (step < now->wanted || atomic_exchange_explicit(&s->due_asked, asked, memory_order_relaxed) == asked)
		return;
	stage_ring(stage);
}

/* Nothing is decided for this step: the daemon is asked, and answers by a schedule or another epoch. */
static int wait_due(ckpt *s, const struct stage *stage, uint64_t step, struct schedule *now, struct err *err)
{
	struct arena_head *head = stage_head(stage);
	uint32_t ms, epoch = atomic_load(&s->epoch);
	uint64_t newest = schedule_newest(head, epoch).number | (uint64_t)epoch << 32;
	uint64_t deadline = min_u64(session_deadline(s, -1, &ms), clock_deadline(DUE_PATIENCE_NS));
	if (atomic_load(&s->due_missed) == newest)
		deadline = 0; /* it was waited for already */
	stage_ring(stage);
	for (;;) {
		uint32_t seen = atomic_load_explicit(&head->wake, memory_order_acquire);
		int rc = session_check_epoch(s, stage, err);
		if (rc)
			return rc;
		rc = schedule_find(head, epoch, step, now);
		if (rc != -EAGAIN)
			return rc ? err_set(err, rc, "what was due then is not kept any more") : 0;
		rc = service_check(s, NULL, err);
		if (rc)
			return rc;
		if (clock_now() >= deadline)
			break;
		beat_sleep(s, stage, seen, deadline);
	}
	atomic_store(&s->due_missed, newest);
	return err_set(err, -ETIMEDOUT, "nothing is decided yet: the job's coordinator has not answered");
}

static int due(ckpt *s, const struct stage *stage, uint64_t step, struct err *err)
{
	struct schedule now;
	int rc = check_due(s, stage, step, err);
	if (rc)
		return rc;
	schedule_ask(stage_head(stage), atomic_load(&s->epoch), step, clock_now());
	rc = schedule_find(stage_head(stage), atomic_load(&s->epoch), step, &now);
	if (rc)
		rc = wait_due(s, stage, step, &now, err);
	if (rc)
		return rc;
	ask_ahead(s, stage, &now, step);
	return answer(&now, step, err);
}

int ckpt_due(ckpt *s, uint64_t step)
{
	struct err err = {0};
	int rc = session_check(s, &err);
	if (rc)
		return session_fail(s, rc, &err);
	struct stage *stage = session_stage(s);
	if (!stage)
		return session_fail(s, err_set(&err, -EINVAL, "call ckpt_join before the first ckpt_due"), &err);
	rc = due(s, stage, step, &err);
	stage_put(stage);
	if (rc >= 0)
		return rc;
	err_prefix(&err, rc, "step %" PRIu64, step);
	return session_fail(s, rc, &err);
}
