#include "step.h"

#include <errno.h>
#include <stdlib.h>

int step_prepare(struct step *s, int world)
{
	size_t rows = data_rows_of_rank(s->options->batch, 0, world); /* rank 0 has the most */
	size_t bytes = rows * (size_t)s->options->model.seq_len;

	s->input = malloc(bytes);
	s->target = malloc(bytes);
	return s->input && s->target ? 0 : -ENOMEM;
}

void step_free(struct step *s)
{
	free(s->target);
	free(s->input);
	s->input = s->target = NULL;
}

float step_rate(const struct train_options *o, uint64_t number)
{
	if (number >= o->warmup)
		return (float)o->rate;
	return (float)(o->rate * (double)number / (double)o->warmup);
}

/* Gradients of the global mean loss, as far as this rank's rows make them; *loss is their part of it. */
static int compute(struct step *s, double *loss)
{
	const struct train_options *o = s->options;
	size_t seq_len = (size_t)o->model.seq_len, rows = data_rows_of_rank(o->batch, s->crew->rank, s->crew->world);
	double positions = (double)o->batch * (double)seq_len;
	uint64_t step = s->state->counters.step;
	int rc;

	ckpt_beat(s->crew->session, step, CKPT_PHASE_DATA);
	rc = data_batch(s->data, o->seed, step, o->batch, s->crew->rank, s->crew->world, seq_len, s->input, s->target);
	if (rc < 0)
		return rc;
	ckpt_beat(s->crew->session, step, CKPT_PHASE_BACKWARD); /* forward and backward are one pass */
	rc = model_backward(s->state->model, rows, s->input, s->target, (float)(1 / positions), loss);
	*loss /= positions;
	return rc;
}

/* After this every rank has the gradients of its shard, and the same sums: the loss and whether anybody wants to end. */
static int reduce(struct step *s, double sums[2])
{
	struct state *state = s->state;
	int rc;

	ckpt_beat(s->crew->session, state->counters.step, CKPT_PHASE_COLLECTIVE);
	rc = crew_reduce_scatter(s->crew, model_grads(state->model), model_size(state->model));
	return rc < 0 ? rc : crew_sum(s->crew, sums, 2);
}

/* The only place where registered memory changes: not before the capture of the last save is complete. */
static int update(struct step *s, double loss)
{
	struct state *state = s->state;
	uint64_t number = state->counters.step + 1;
	int rc;

	ckpt_beat(s->crew->session, state->counters.step, CKPT_PHASE_SAVE);
	rc = saver_fence(s->saver);
	if (rc < 0)
		return rc;
	ckpt_beat(s->crew->session, state->counters.step, CKPT_PHASE_OPTIMIZER);
	optimizer_step(state->optimizer, model_params(state->model), model_grads(state->model), number,
		       step_rate(s->options, number));
	ckpt_beat(s->crew->session, state->counters.step, CKPT_PHASE_COLLECTIVE);
	rc = crew_all_gather(s->crew, model_params(state->model), model_size(state->model));
	if (rc < 0)
		return rc;
	state->counters.step = number;
	state->counters.loss = loss;
	return 0;
}

int step_run(struct step *s, bool *stop)
{
	double sums[2] = {0, *stop ? 1 : 0};
	int rc = compute(s, &sums[0]);

	if (rc == 0)
		rc = reduce(s, sums);
	if (rc == 0)
		rc = update(s, sums[0]);
	*stop = sums[1] > 0;
	return rc;
}
