#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/deadline.h"
#include "common/message.h"
#include "loop/loop_internal.h"

/* How long the daemon may take to note a mark, and when it is asked again that did not. */
enum { MARK_MS = 500, MARK_PAUSE_MS = 30000 };

static void tell_progress(struct loop *l)
{
	const struct counters *c = &l->state.counters;
	uint64_t tokens = l->options->batch * (uint64_t)l->options->model.seq_len;
	char line[PROGRESS_SIZE];

	if (l->communicator.rank == 0 &&
	    progress_line(&l->progress, monotonic_ns(), c->step, l->options->steps, c->loss, tokens, &l->saver, line))
		message(0, "%s", line);
}

static void tell_straggler(struct loop *l)
{
	const double *times = step_times(&l->step);
	const struct straggler *s = &l->straggler;
	double scratch[RING_MAX_WORLD];
	enum straggler_news news =
		times ? straggler_step(&l->straggler, l->state.counters.step, times, l->communicator.world, scratch)
		      : STRAGGLER_NOTHING;

	if (news == STRAGGLER_NOTHING || l->communicator.rank != 0)
		return;
	report_straggler(&l->report, s, l->state.counters.step);
	if (news == STRAGGLER_FOUND)
		message(0,
			"rank %d is slow since step %" PRIu64
			": %.1f ms in a step, the middle rank %.1f ms; all wait for it",
			s->rank, s->since, s->rank_ms, s->middle_ms);
	else
		message(0, "rank %d is no longer slow: it has cost %.0f ms in %" PRIu64 " steps", s->rank, s->lost_ms,
			s->steps);
}

/* What it has cost is told also where the epoch ends before it recovered. */
static void end_straggler(struct loop *l)
{
	const struct straggler *s = &l->straggler;

	if (!s->slow || l->communicator.rank != 0)
		return;
	report_straggler(&l->report, s, l->state.counters.step);
	message(0, "rank %d is slow to the end: it has cost %.0f ms in %" PRIu64 " steps", s->rank, s->lost_ms,
		s->steps);
}

/* Told once per step that became safe, since what is gone back over is not safe any more. */
static void note_safe(struct loop *l)
{
	uint64_t safe = saver_safe(&l->saver);

	if (safe == l->noted)
		return;
	l->noted = safe;
	monitor_safe(&l->monitor, (struct monitor_save){safe, l->communicator.epoch});
	l->back = false;
}

static int mark(struct loop *l, struct monitor_save save, ckpt_health health, const char *reason)
{
	return ckpt_mark(l->session, save.step, save.epoch, health, reason, MARK_MS);
}

/* All that became healthy while the daemon was away, the oldest first: those on storage outlast the newest, which may be
 * in memory only. One that could not be told is told again after the next step, but not where that would keep the
 * training waiting. */
static void mark_healthy(struct loop *l)
{
	struct monitor_save save;
	char reason[64];
	int rc = 0;

	if (monotonic_ns() < l->mark_ns)
		return;
	snprintf(reason, sizeof(reason), "%" PRIu64 " good steps were made from it", l->monitor.need);
	while (rc == 0 && monitor_healthy(&l->monitor, &save)) {
		rc = mark(l, save, CKPT_HEALTHY, reason);
		if (rc == 0 || rc == -EINVAL)
			monitor_told(&l->monitor, save.step);
	}
	if (rc == -ETIMEDOUT)
		l->mark_ns = monotonic_ns() + MARK_PAUSE_MS * INT64_C(1000000);
	if (rc < 0 && rc != -ESTALE && rc != -ENOTCONN && l->communicator.rank == 0)
		message(0, "step %" PRIu64 " is not marked healthy: %s", save.step, ckpt_error(l->session));
}

static void mark_suspects(struct loop *l)
{
	struct monitor_save save;

	while (monitor_suspect(&l->monitor, &save) && mark(l, save, CKPT_UNHEALTHY, l->why) != -ETIMEDOUT)
		;
}

/*
 * All ranks come to the same end and leave the epoch together: the rank that joins first calls the others out of their
 * collectives, and no rank is to be called before it knows why it leaves. A rank that then fails to meet them has been lost, which is no
 * other way out.
 */
static int leave_together(struct loop *l)
{
	l->agreed = true;
	communicator_barrier(&l->communicator);
	return -ESTALE;
}

static int go_back(struct loop *l)
{
	const struct counters *c = &l->state.counters;

	snprintf(l->why, sizeof(l->why), "the loss of step %" PRIu64 " is %g", c->step, c->loss);
	if (!monitor_may_go_back(&l->monitor)) {
		snprintf(l->why, sizeof(l->why),
			 "the loss of step %" PRIu64 " is %g, again after %d ways back: the training itself diverges",
			 c->step, c->loss, MONITOR_ATTEMPTS - 1);
		return -EDOM;
	}
	if (l->communicator.rank == 0)
		message(0, "%s: back to the last healthy checkpoint", l->why);
	mark_suspects(l);
	l->back = true;
	return leave_together(l);
}

/* Replicas differed in a save: all ranks know it, and go back to the newest one in which they did not. */
static int leave_deviation(struct loop *l)
{
	if (!l->saver.deviated)
		saver_follow(&l->saver); /* it may have come here meanwhile, with its sentence */
	snprintf(l->why, sizeof(l->why), "%s",
		 *l->saver.why ? l->saver.why : "replicas differ, as another rank has heard");
	return leave_together(l);
}

static const char *why_of(const struct loop *l, int rc)
{
	if (rc == -ENODATA)
		return "the text is shorter than a row";
	if (*l->platform->device.why)
		return l->platform->device.why;
	return *l->communicator.why ? l->communicator.why : l->saver.why;
}

/* What the operator wants this rank to play from this step on. */
static void hear_faults(struct loop *l)
{
	char name[32];
	uint64_t ms = 0;

	if (ckpt_fault(l->session, name, sizeof(name), &ms) &&
	    faults_add(&l->faults, name, ms, l->state.counters.step) < 0)
		message(l->communicator.rank, "fault %s is not known here", name);
}

static int one_step(struct loop *l, bool *stop)
{
	int rc;

	hear_faults(l);
	*stop = loop_wants_stop(l);
	rc = step_run(&l->step, stop);
	if (rc == -EUCLEAN)
		return leave_deviation(l);
	if (rc < 0)
		return loop_fail(l, rc, why_of(l, rc));
	if (!monitor_step(&l->monitor, l->state.counters.step, l->state.counters.loss))
		return go_back(l);
	l->advanced_ns = monotonic_ns();
	if (!l->entry.at.stepped)
		l->entry.at.stepped = l->advanced_ns;
	loop_tell_entry(l);
	tell_straggler(l);
	return 0;
}

static int flip_bit(struct loop *l)
{
	struct engine *e = l->state.engine;
	float *at = e->params + e->size / 3, value;
	uint32_t word;
	int rc = e->ops->get(e, &value, at, 1);

	memcpy(&word, &value, sizeof(word));
	word ^= UINT32_C(1) << 20;
	memcpy(&value, &word, sizeof(word));
	return rc < 0 ? rc : e->ops->put(e, at, &value, 1);
}

/* The fault has its place before a save: what no save compares is trained on by all, and found by nobody. */
static int flip_before_save(struct loop *l)
{
	if (l->communicator.world < 2 || l->options->no_vote ||
	    !faults_take(&l->faults, FAULTS_FLIP, l->state.counters.step))
		return 0;
	message(l->communicator.rank, "flip: a bit of a parameter is flipped before the save of step %" PRIu64,
		l->state.counters.step);
	int rc = flip_bit(l);

	return rc < 0 ? loop_fail(l, rc, l->state.engine->device->why) : 0;
}

/* A save that one rank has no slot for is given up on all ranks, and compares nothing: the flip then waits for the next one. */
static int flip_if_saved(struct loop *l)
{
	double able;
	int rc;

	ckpt_beat(l->session, l->state.counters.step, CKPT_PHASE_SAVE);
	able = saver_has_slot(&l->saver) ? 1 : 0;
	rc = communicator_sum(&l->communicator, &able, 1);
	if (rc < 0)
		return loop_fail(l, rc, l->communicator.why);
	return (int)able == l->communicator.world ? flip_before_save(l) : 0;
}

static int save(struct loop *l)
{
	uint64_t step = l->state.counters.step;
	int rc = l->step.flips && saver_due(&l->saver, step) ? flip_if_saved(l) : 0;

	if (rc < 0)
		return rc;
	rc = saver_begin(&l->saver, step);
	return rc < 0 ? loop_fail(l, rc, l->saver.why) : 0;
}

/* What was gone back to becomes the newest checkpoint, so that the way back outlasts this process. */
static int save_again(struct loop *l)
{
	int rc = l->back && l->entry.restored.source ? saver_again(&l->saver, l->state.counters.step) : 0;

	return rc < 0 ? loop_fail(l, rc, l->saver.why) : 0;
}

/* All steps but the last end with a save by schedule; the last save is another matter. */
int loop_train(struct loop *l)
{
	bool stop = false;
	int rc = save_again(l);

	l->straggler = (struct straggler){0};
	progress_start(&l->progress, l->options->progress, l->state.counters.step);
	while (rc == 0 && !stop && l->state.counters.step < l->options->steps) {
		rc = one_step(l, &stop);
		if (rc == 0 && !stop && l->state.counters.step < l->options->steps)
			rc = save(l);
		if (rc < 0)
			break; /* what follows is of a state that is left */
		saver_follow(&l->saver);
		note_safe(l);
		mark_healthy(l);
		tell_progress(l);
	}
	end_straggler(l);
	return rc;
}

/* All ranks must have the same parameters, else the run was wrong. */
static int compare_parameters(struct loop *l, struct loop_result *result)
{
	uint64_t all[RING_MAX_WORLD];
	int rc;

	rc = state_fingerprint(&l->state, &result->fingerprint);
	if (rc < 0)
		return loop_fail(l, rc, *l->platform->device.why ? l->platform->device.why : "out of memory");
	all[l->communicator.rank] = result->fingerprint;
	rc = communicator_gather(&l->communicator, all, sizeof(all[0]));
	if (rc < 0)
		return loop_fail(l, rc, l->communicator.why);
	for (int rank = 1; rank < l->communicator.world; rank++) {
		if (all[rank] != all[0]) {
			snprintf(l->why, sizeof(l->why),
				 "ranks 0 and %d ended with different parameters: %016" PRIx64 " and %016" PRIx64, rank,
				 all[0], all[rank]);
			return -EBADMSG;
		}
	}
	return 0;
}

/* Of this epoch, from the end of its first step, which waits for what comes with an epoch. */
static double mean_step_ms(const struct loop *l)
{
	uint64_t steps = l->state.counters.step - l->entry.restored.step;

	return steps > 1 ? (double)(l->advanced_ns - l->entry.at.stepped) / 1e6 / (double)(steps - 1) : 0;
}

int loop_finish(struct loop *l, struct loop_result *result)
{
	int64_t from = monotonic_ns();
	int rc;

	loop_tell_entry(l);
	*result = (struct loop_result){
		.step = l->state.counters.step, .loss = l->state.counters.loss, .rank = l->communicator.rank};
	rc = flip_before_save(l);
	if (rc < 0)
		return rc;
	ckpt_beat(l->session, l->state.counters.step, CKPT_PHASE_SAVE);
	rc = saver_finish(&l->saver, l->state.counters.step);
	note_safe(l); /* while it is this epoch's */
	if (rc == -EUCLEAN)
		return leave_deviation(l);
	if (rc == -ESTALE || saver_fatal(rc))
		return loop_fail(l, rc, l->saver.why);
	if (rc < 0) {
		result->unsafe = true;
		message(l->communicator.rank, "%s", l->saver.why);
	}
	rc = compare_parameters(l, result);
	if (rc < 0)
		return rc;
	report_end(&l->report, &(struct run_end){.step = result->step,
						 .loss = result->loss,
						 .fingerprint = result->fingerprint,
						 .wait_ms = (double)(monotonic_ns() - from) / 1e6,
						 .step_ms = mean_step_ms(l)});
	rc = communicator_barrier(&l->communicator); /* who leaves first must not look like a lost neighbour */
	return rc < 0 ? loop_fail(l, rc, l->communicator.why) : 0;
}
