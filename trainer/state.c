#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int state_create(const struct train_options *options, int rank, int world, struct state *state)
{
	static const struct optimizer_config adamw = {
		.beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-8f, .weight_decay = 0.1f};
	size_t rows = options->batch / (size_t)world + (options->batch % (size_t)world != 0), count;
	const struct tensor *table;
	int rc;

	*state = (struct state){0};
	rc = model_create(&options->model, rows, &state->model);
	if (rc < 0)
		return rc;
	table = model_tensors(state->model, &count);
	rc = optimizer_create(&adamw, table, count, rank, world, &state->optimizer);
	if (rc == 0)
		rc = squeeze_create(&state->squeeze, options->compress, model_size(state->model), world);
	if (rc < 0)
		state_free(state);
	return rc;
}

void state_free(struct state *state)
{
	squeeze_free(&state->squeeze);
	optimizer_free(state->optimizer);
	model_free(state->model);
	*state = (struct state){0};
}

void state_reset(struct state *state, const struct train_options *options, uint64_t text)
{
	struct shard_range range = optimizer_range(state->optimizer);
	size_t bytes = (range.end - range.begin) * sizeof(float);

	model_init(state->model, options->seed);
	memset(optimizer_moment(state->optimizer, SHARD_EXP_AVG), 0, bytes);
	memset(optimizer_moment(state->optimizer, SHARD_EXP_AVG_SQ), 0, bytes);
	if (state->squeeze.residual)
		memset(state->squeeze.residual, 0, state->squeeze.count * sizeof(float));
	state->counters = (struct counters){
		.version = STATE_VERSION, .seed = options->seed, .batch = options->batch, .text = text};
}

static void describe(ckpt_tensor *t, const struct tensor *from, uint64_t shape[2])
{
	shape[0] = (uint64_t)from->shape[0];
	shape[1] = (uint64_t)from->shape[1];
	t->dtype = CKPT_F32;
	t->ndim = from->dims;
	t->shape = shape;
	t->npieces = 1;
	t->device = CKPT_HOST;
}

/* Whole on every rank: kept once per node and written once. */
static int register_parameters(struct state *state, ckpt *session)
{
	size_t count;
	const struct tensor *table = model_tensors(state->model, &count);
	int rc = 0;

	for (size_t i = 0; i < count && rc == 0; i++) {
		ckpt_piece piece = {.data = model_params(state->model) + table[i].offset};
		ckpt_tensor t = CKPT_INIT(ckpt_tensor);
		uint64_t shape[2];

		describe(&t, &table[i], shape);
		t.name = table[i].name;
		t.pieces = &piece;
		t.group = "params";
		t.replica = "dp";
		rc = ckpt_register_tensor(session, &t);
	}
	return rc;
}

/* A shard begins and ends within tensors: flat ranges of them. */
static int register_moments(struct state *state, ckpt *session, enum shard_state moment)
{
	size_t count, tensors;
	const struct shard_segment *segments = optimizer_segments(state->optimizer, &count);
	const struct tensor *table = model_tensors(state->model, &tensors);
	int rc = 0;

	for (size_t i = 0; i < count && rc == 0; i++) {
		const struct shard_segment *s = &segments[i];
		ckpt_piece piece = {.data = optimizer_moment(state->optimizer, moment) + s->shard_start,
				    .start = s->tensor_start,
				    .count = s->count};
		ckpt_tensor t = CKPT_INIT(ckpt_tensor);
		char name[SHARD_NAME_SIZE];
		uint64_t shape[2];

		shard_state_name(name, moment, &table[s->tensor]);
		describe(&t, &table[s->tensor], shape);
		t.name = name;
		t.pieces = &piece;
		t.group = "optimizer";
		rc = ckpt_register_tensor(session, &t);
	}
	return rc;
}

int state_register(struct state *state, ckpt *session)
{
	int rc = register_parameters(state, session);

	if (rc == 0)
		rc = register_moments(state, session, SHARD_EXP_AVG);
	if (rc == 0)
		rc = register_moments(state, session, SHARD_EXP_AVG_SQ);
	if (rc == 0)
		rc = ckpt_register_blob(session, "trainer.step", CKPT_SCOPE_JOB, &state->counters,
					sizeof(state->counters));
	if (rc == 0 && state->squeeze.residual)
		rc = ckpt_register_blob(session, "trainer.residual", CKPT_SCOPE_RANK, state->squeeze.residual,
					state->squeeze.count * sizeof(float));
	return rc;
}

uint64_t state_fingerprint(const struct state *state)
{
	const unsigned char *bytes = (const unsigned char *)model_params(state->model);
	size_t count = model_size(state->model) * sizeof(float);
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < count; i++)
		sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
	return sum;
}

static int write_all(int fd, const char *from, size_t bytes)
{
	while (bytes) {
		ssize_t n = write(fd, from, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		from += n;
		bytes -= (size_t)n;
	}
	return 0;
}

int state_dump(const struct state *state, const char *file)
{
	char temporary[PATH_MAX];
	int fd, rc;

	if ((size_t)snprintf(temporary, sizeof(temporary), "%s.tmp", file) >= sizeof(temporary))
		return -ENAMETOOLONG;
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		return -errno;
	rc = write_all(fd, (const char *)model_params(state->model), model_size(state->model) * sizeof(float));
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	if (rc == 0 && rename(temporary, file) < 0)
		rc = -errno;
	if (rc < 0)
		unlink(temporary);
	return rc;
}
