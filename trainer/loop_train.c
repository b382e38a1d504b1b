#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "deadline.h"
#include "loop_internal.h"
#include "message.h"

static void tell_progress(struct loop *l)
{
	const struct counters *c = &l->state.counters;
	uint64_t tokens = l->options->batch * (uint64_t)l->options->model.seq_len;
	char line[PROGRESS_SIZE];

	if (l->crew.rank == 0 &&
	    progress_line(&l->progress, monotonic_ns(), c->step, l->options->steps, c->loss, tokens, &l->saver, line))
		message(0, "%s", line);
}

static int one_step(struct loop *l, bool *stop)
{
	int rc;

	*stop = loop_wants_stop(l);
	rc = step_run(&l->step, stop);
	if (rc < 0)
		return loop_fail(l, rc,
				 rc == -ENODATA ? "the text is shorter than a row"
				 : *l->crew.why ? l->crew.why
						: l->saver.why);
	l->advanced_ns = monotonic_ns();
	if (!l->entry.at.stepped)
		l->entry.at.stepped = l->advanced_ns;
	loop_tell_entry(l);
	return 0;
}

/* All steps but the last end with a save by schedule; the last save is another matter. */
int loop_train(struct loop *l)
{
	bool stop = false;
	int rc = 0;

	progress_start(&l->progress, l->options->progress, l->state.counters.step);
	while (rc == 0 && !stop && l->state.counters.step < l->options->steps) {
		rc = one_step(l, &stop);
		if (rc == 0 && !stop && l->state.counters.step < l->options->steps) {
			rc = saver_begin(&l->saver, l->state.counters.step);
			if (rc < 0)
				loop_fail(l, rc, l->saver.why);
		}
		saver_follow(&l->saver);
		tell_progress(l);
	}
	return rc;
}

/* All ranks must have the same parameters, else the run was wrong. */
static int compare_parameters(struct loop *l, struct loop_result *result)
{
	uint64_t all[RING_MAX_WORLD];
	int rc;

	result->fingerprint = all[l->crew.rank] = state_fingerprint(&l->state);
	rc = crew_gather(&l->crew, all, sizeof(all[0]));
	if (rc < 0)
		return loop_fail(l, rc, l->crew.why);
	for (int rank = 1; rank < l->crew.world; rank++) {
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
		.step = l->state.counters.step, .loss = l->state.counters.loss, .rank = l->crew.rank};
	ckpt_beat(l->session, l->state.counters.step, CKPT_PHASE_SAVE);
	rc = saver_finish(&l->saver, l->state.counters.step);
	if (rc == -ESTALE || saver_fatal(rc))
		return loop_fail(l, rc, l->saver.why);
	if (rc < 0) {
		result->unsafe = true;
		message(l->crew.rank, "%s", l->saver.why);
	}
	rc = compare_parameters(l, result);
	if (rc < 0)
		return rc;
	report_end(&l->report, &(struct run_end){.step = result->step,
						 .loss = result->loss,
						 .fingerprint = result->fingerprint,
						 .wait_ms = (double)(monotonic_ns() - from) / 1e6,
						 .step_ms = mean_step_ms(l)});
	rc = crew_barrier(&l->crew); /* who leaves first must not look like a lost neighbour */
	return rc < 0 ? loop_fail(l, rc, l->crew.why) : 0;
}
