#include "job/monitor/loss_policy.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "catalog/room.h"
#include "job/job.h"
#include "participant/room.h"

#include <inttypes.h>
#include <stdio.h>

#define AGAIN_NS (2 * CLOCK_NS_PER_S)
/* A loss is that of the state before the step is done, so the checkpoint of the step before may be bad already. */
enum { LOSS_MARGIN = 2 };

static void note(const struct job *job, const char *kind, const char *text)
{
	struct step_id id = {.step = job->loss.now.step, .epoch = job->epoch};
	log_warn("job %s: %s, as its loss-policy says", job->name, text);
	catalog_event(job->storage->catalog, job->name, id, kind, text);
}

static void halt(struct job *job, const char *text)
{
	note(job, "loss-halt", text);
	halt_now(job);
}

/* ---- rollback -------------------------------------------------------------------------------------------------- */

/* The first step that may be wrong. */
static uint64_t begins_at(const struct loss_found *found)
{
	return found->kind == LOSS_DIVERGED ? found->best_step : found->step;
}

/* What is newest below. False: there is nothing. */
static bool step_below(struct step_id id, struct step_id *below)
{
	bool first = !id.step && id.epoch <= 1;
	*below = id.step ? (struct step_id){id.step - 1, id.epoch} : (struct step_id){STEP_MAX, id.epoch - 1};
	return !first;
}

/* Nothing as late as that is to be taken. */
static struct step_id bound(const struct job *job, const struct loss_found *found, bool again)
{
	uint64_t step = begins_at(found);
	struct step_id before = {.step = step > LOSS_MARGIN ? step - LOSS_MARGIN + 1 : 0, .epoch = job->epoch};
	/* What it went back to last was bad, too, or leads there. */
	if (again && step_compare(job->restore.last, before) < 0)
		before = job->restore.last;
	return before;
}

static bool is_near(uint64_t step, uint64_t last)
{
	return step <= last + LOSS_WINDOW;
}

static void say(struct job *job)
{
	job->loss_policy.again_ns = clock_now() + AGAIN_NS;
	participant_roll_back(job, &job->loss_policy.to);
}

static void go_back(struct job *job, const struct loss_found *found, const char *text)
{
	struct loss_policy_state *p = &job->loss_policy;
	char what[WIRE_REASON_MAX];
	struct step_id to;
	bool again = p->times && is_near(found->step, p->last_step);
	p->times = again ? p->times + 1 : 1;
	p->last_step = max_u64(found->step, again ? p->last_step : 0);
	if (p->times > LOSS_ROLLBACKS) {
		halt(job, "it is asked to end, since it went back for this twice and it came again");
		return;
	}
	struct step_id before = bound(job, found, again);
	if (!health_marks_newest(&job->health_marks, &job->restore.back, before, &to) && !step_below(before, &to)) {
		halt(job, "it is asked to end, since there is nothing to go back to");
		return;
	}
	snprintf(what, sizeof(what), "it goes back to step %" PRIu64 " of epoch %u or an older one", to.step, to.epoch);
	note(job, "loss-rollback", what);
	p->epoch = job->epoch;
	p->to.to = to;
	snprintf(p->to.reason, sizeof(p->to.reason), "%.*s", (int)sizeof(p->to.reason) - 1, text);
	say(job);
}

/* ---- what is done ---------------------------------------------------------------------------------------------- */

/* A spike may be over by itself, as most are. */
void loss_policy_act(struct job *job, const struct loss_found *found, const char *text)
{
	if (found->kind == LOSS_SPIKE || job->stop)
		return;
	if (job->policy.loss_policy == LOSS_HALT)
		halt(job, "it is asked to end");
	else if (job->policy.loss_policy == LOSS_ROLLBACK && job->loss_policy.epoch != job->epoch)
		go_back(job, found, text);
}

/* The coordinator may be lost before it has heard it. */
void loss_policy_tick(struct job *job)
{
	struct loss_policy_state *p = &job->loss_policy;
	if (p->epoch != job->epoch)
		p->epoch = 0;
	else if (p->epoch && !job->stop && clock_now() >= p->again_ns)
		say(job);
}
