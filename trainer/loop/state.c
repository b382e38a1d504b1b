#include "loop/state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int state_create(struct platform *platform, const struct train_options *options, int rank, int world,
		 struct state *state)
{
	const struct engine_setup setup = {
		.config = options->model,
		.optimizer = {.beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-8f, .weight_decay = 0.1f},
		.max_rows = options->batch / (size_t)world + (options->batch % (size_t)world != 0),
		.rank = rank,
		.world = world,
		.recompute = options->recompute,
	};
	int rc;

	*state = (struct state){0};
	rc = platform->create(platform, &setup, &state->engine);
	if (rc == 0)
		rc = squeeze_create(&state->squeeze, options->compress, state->engine, world);
	if (rc < 0)
		state_free(state);
	return rc;
}

void state_free(struct state *state)
{
	squeeze_free(&state->squeeze);
	if (state->engine)
		state->engine->ops->free(state->engine);
	*state = (struct state){0};
}

int state_reset(struct state *state, const struct train_options *options, uint64_t text)
{
	int rc = squeeze_reset(&state->squeeze);

	if (rc < 0)
		return rc;
	state->counters = (struct counters){
		.version = STATE_VERSION, .seed = options->seed, .batch = options->batch, .text = text};
	return state->engine->ops->init(state->engine, options->seed);
}

static void describe(const struct engine *e, ckpt_tensor *t, const struct tensor *from, uint64_t shape[2])
{
	shape[0] = (uint64_t)from->shape[0];
	shape[1] = (uint64_t)from->shape[1];
	t->dtype = CKPT_F32;
	t->ndim = from->dims;
	t->shape = shape;
	t->npieces = 1;
	t->device = e->ordinal;
}

/* Whole on every rank: kept once per node and written once. */
static int register_parameters(struct state *state, ckpt *session)
{
	const struct engine *e = state->engine;
	const struct tensor *table = e->table;
	int rc = 0;

	for (size_t i = 0; i < e->tensors && rc == 0; i++) {
		ckpt_piece piece = {.data = e->params + table[i].offset};
		ckpt_tensor t = CKPT_INIT(ckpt_tensor);
		uint64_t shape[2];

		describe(e, &t, &table[i], shape);
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
	const struct engine *e = state->engine;
	const struct tensor *table = e->table;
	int rc = 0;

	for (size_t i = 0; i < e->segment_count && rc == 0; i++) {
		const struct shard_segment *s = &e->segments[i];
		ckpt_piece piece = {
			.data = e->moment[moment] + s->shard_start, .start = s->tensor_start, .count = s->count};
		ckpt_tensor t = CKPT_INIT(ckpt_tensor);
		char name[SHARD_NAME_SIZE];
		uint64_t shape[2];

		shard_state_name(name, moment, &table[s->tensor]);
		describe(e, &t, &table[s->tensor], shape);
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
		rc = ckpt_register_device_blob(session, "trainer.residual", CKPT_SCOPE_RANK, state->squeeze.residual,
					       state->squeeze.count * sizeof(float), state->engine->ordinal);
	return rc;
}

/* A copy of them on the host, to be freed; NULL: no memory, or the device is lost. */
static float *state_params(const struct state *state)
{
	struct engine *e = state->engine;
	float *params = malloc(e->size * sizeof(*params));

	if (!params || e->ops->get(e, params, e->params, e->size) == 0)
		return params;
	free(params);
	return NULL;
}

int state_fingerprint(const struct state *state, uint64_t *fingerprint)
{
	float *params = state_params(state);
	const unsigned char *bytes = (const unsigned char *)params;
	size_t count = state->engine->size * sizeof(float);
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	if (!params)
		return *state->engine->device->why ? -ENOTRECOVERABLE : -ENOMEM;
	for (size_t i = 0; i < count; i++)
		sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
	free(params);
	*fingerprint = sum;
	return 0;
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
	float *params;
	int fd, rc;

	if ((size_t)snprintf(temporary, sizeof(temporary), "%s.tmp", file) >= sizeof(temporary))
		return -ENAMETOOLONG;
	params = state_params(state);
	if (!params)
		return -ENOMEM;
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	rc = fd < 0 ? -errno : write_all(fd, (const char *)params, state->engine->size * sizeof(*params));
	free(params);
	if (fd < 0)
		return rc;
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	if (rc == 0 && rename(temporary, file) < 0)
		rc = -errno;
	if (rc < 0)
		unlink(temporary);
	return rc;
}
