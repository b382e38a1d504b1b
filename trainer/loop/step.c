#include "loop/step.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/deadline.h"

#define SPIKE 1000.0 /* above any loss of a byte */

/* What all ranks sum up in one go. Of the times each adds its own, and zero to those of the others. */
enum {
	SUM_LOSS,
	SUM_STOP,
	SUM_DEVIATES,
	SUM_FLIPS,
	SUM_TIMES,
	TIMES_MAX = RING_SMALL_BYTES / sizeof(double) - SUM_TIMES
};

int step_prepare(struct step *s, int world)
{
	size_t rows = data_rows_of_rank(s->options->batch, 0, world); /* rank 0 has the most */
	size_t bytes = rows * (size_t)s->options->model.seq_len;

	s->input = malloc(bytes);
	s->target = malloc(bytes);
	s->sums = calloc(SUM_TIMES + (size_t)world, sizeof(*s->sums));
	return s->input && s->target && s->sums ? 0 : -ENOMEM;
}

void step_free(struct step *s)
{
	free(s->sums);
	free(s->target);
	free(s->input);
	s->input = s->target = NULL;
	s->sums = NULL;
}

float step_rate(const struct train_options *o, uint64_t number)
{
	if (number >= o->warmup)
		return (float)o->rate;
	return (float)(o->rate * (double)number / (double)o->warmup);
}

static void be_slow(struct step *s)
{
	uint64_t ms = faults_slow_ms(s->faults, s->state->counters.step);
	struct timespec pause = {(time_t)(ms / 1000), (long)(ms % 1000 * 1000000)};

	if (ms)
		nanosleep(&pause, NULL);
}

/* For as long as a larger model would compute. A rank that is slow, is so beyond it. */
static void keep_pace(const struct step *s, int64_t begun)
{
	int64_t left = begun + (int64_t)s->options->pace_ms * 1000000 - monotonic_ns();
	struct timespec pause = {left / 1000000000, left % 1000000000};

	if (left > 0)
		nanosleep(&pause, NULL);
}

static int break_down(struct step *s)
{
	static const enum device_failure failures[] = {[FAULTS_TRAP] = DEVICE_TRAP,
						       [FAULTS_ILLEGAL_ADDRESS] = DEVICE_ILLEGAL_ADDRESS,
						       [FAULTS_NEVER_ENDS] = DEVICE_NEVER_ENDS,
						       [FAULTS_DEVICE_LOST] = DEVICE_LOST,
						       [FAULTS_ECC] = DEVICE_ECC};
	int rc = 0;

	for (int kind = FAULTS_TRAP; rc == 0 && kind <= FAULTS_ECC; kind++)
		if (faults_take(s->faults, (enum faults_kind)kind, s->state->counters.step))
			rc = s->device->break_down(s->device, failures[kind]);
	return rc;
}

/* What this rank adds to the loss that all hand over. */
static double spike(const struct step *s)
{
	return faults_spike(s->faults, s->state->counters.step) ? SPIKE : 0;
}

/* Gradients of the global mean loss, as far as this rank's rows make them; *loss is their part of it. */
static int compute(struct step *s, double *loss)
{
	const struct train_options *o = s->options;
	size_t seq_len = (size_t)o->model.seq_len,
	       rows = data_rows_of_rank(o->batch, s->communicator->rank, s->communicator->world);
	double positions = (double)o->batch * (double)seq_len;
	uint64_t step = s->state->counters.step;
	struct engine *engine = s->state->engine;
	int rc;

	ckpt_beat(s->communicator->session, step, CKPT_PHASE_DATA);
	be_slow(s);
	int64_t begun = monotonic_ns();
	rc = data_batch(s->data, o->seed, step, o->batch, s->communicator->rank, s->communicator->world, seq_len,
			s->input, s->target);
	if (rc < 0)
		return rc;
	ckpt_beat(s->communicator->session, step, CKPT_PHASE_BACKWARD); /* forward and backward are one pass */
	rc = engine->ops->backward(engine, rows, s->input, s->target, (float)(1 / positions));
	keep_pace(s, begun);
	if (rc == 0)
		rc = break_down(s);
	if (rc == 0)
		rc = device_wait(s->device, s->communicator->cancel->fd, deadline_in_ms(s->communicator->timeout_ms));
	if (rc == 0)
		*loss = engine->ops->loss(engine) / positions + spike(s);
	return rc;
}

/* What is to go wrong where the others are about to meet. */
static int misbehave(struct step *s)
{
	struct engine *e = s->state->engine;
	uint64_t step = s->state->counters.step;
	const float nan_value = NAN;
	int rc = 0;

	if (faults_take(s->faults, FAULTS_EXIT_EARLY, step))
		_exit(0);
	if (faults_take(s->faults, FAULTS_NAN, step))
		rc = e->ops->put(e, e->grads + e->size / 2, &nan_value, 1);
	if (rc < 0)
		return rc;
	while (faults_take(s->faults, FAULTS_ABSENT, step)) /* until somebody ends this process */
		while (true)
			pause();
	if (faults_take(s->faults, FAULTS_MISMATCH, step))
		return communicator_all_gather(s->communicator, e->grads, e->size);
	return 0;
}

/* After this every rank has the gradients of its shard, and the same sums. */
static int reduce(struct step *s)
{
	struct state *state = s->state;
	size_t world = (size_t)s->communicator->world;
	int rc;

	ckpt_beat(s->communicator->session, state->counters.step, CKPT_PHASE_COLLECTIVE);
	rc = misbehave(s);
	if (rc == 0 && state->squeeze.residual)
		rc = squeeze_reduce_scatter(&state->squeeze, s->communicator, state->engine->grads);
	else if (rc == 0)
		rc = communicator_reduce_scatter(s->communicator, state->engine->grads, state->engine->size);
	return rc < 0 ? rc : communicator_sum(s->communicator, s->sums, SUM_TIMES + (world <= TIMES_MAX ? world : 0));
}

/* The only place where registered memory changes: not before the capture of the last save is complete. */
static int update(struct step *s, double loss)
{
	struct state *state = s->state;
	uint64_t number = state->counters.step + 1;
	int rc;

	ckpt_beat(s->communicator->session, state->counters.step, CKPT_PHASE_SAVE);
	rc = saver_fence(s->saver);
	if (rc < 0)
		return rc;
	ckpt_beat(s->communicator->session, state->counters.step, CKPT_PHASE_OPTIMIZER);
	rc = squeeze_commit(&state->squeeze);
	if (rc == 0)
		rc = state->engine->ops->update(state->engine, number, step_rate(s->options, number));
	if (rc < 0)
		return rc;
	ckpt_beat(s->communicator->session, state->counters.step, CKPT_PHASE_COLLECTIVE);
	rc = communicator_all_gather(s->communicator, state->engine->params, state->engine->size);
	if (rc < 0)
		return rc;
	state->counters.step = number;
	state->counters.loss = loss;
	ckpt_beat_loss(s->communicator->session, number, CKPT_PHASE_OPTIMIZER, loss, -1);
	return 0;
}

int step_run(struct step *s, bool *stop)
{
	int64_t from = monotonic_ns();
	int rc;

	memset(s->sums, 0, (SUM_TIMES + (size_t)s->communicator->world) * sizeof(*s->sums));
	s->sums[SUM_STOP] = *stop ? 1 : 0;
	s->sums[SUM_DEVIATES] = s->saver->deviated ? 1 : 0;
	s->sums[SUM_FLIPS] = s->communicator->world > 1 && !s->options->no_vote &&
					     faults_wait(s->faults, FAULTS_FLIP, s->state->counters.step + 1)
				     ? 1
				     : 0;
	rc = compute(s, &s->sums[SUM_LOSS]);
	s->sums[SUM_TIMES + s->communicator->rank] = (double)(monotonic_ns() - from) / 1e6;
	if (rc == 0)
		rc = reduce(s);
	if (rc == 0 && s->sums[SUM_DEVIATES] > 0)
		return -EUCLEAN;
	if (rc == 0)
		rc = update(s, s->sums[SUM_LOSS]);
	*stop = s->sums[SUM_STOP] > 0;
	s->flips = s->sums[SUM_FLIPS] > 0;
	return rc;
}

const double *step_times(const struct step *s)
{
	return s->communicator->world <= TIMES_MAX ? s->sums + SUM_TIMES : NULL;
}
