#include "engine_cuda.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/deadline.h"
#include "gpu_compress.h"
#include "gpu_layers.h"
#include "gpu_memory.h"
#include "gpu_model.h"

/* Copies of all parameters take milliseconds. */
enum { WAIT_MS = 60000 };

struct cuda_engine {
	struct engine base; /* first */
	struct cuda *cuda;
	struct engine_setup setup;
	struct tensor *table;
	struct shard_segment *segments;
	struct gpu_model *model;
	void *moments; /* on the device: both of them */
};

static struct cuda_engine *cuda_of(struct engine *e)
{
	return (struct cuda_engine *)e;
}

static int await(struct cuda_engine *c)
{
	return device_wait(&c->cuda->base.device, -1, deadline_in_ms(WAIT_MS));
}

static void cuda_free(struct engine *e)
{
	struct cuda_engine *c = cuda_of(e);

	gpu_model_free(c->model);
	if (c->moments)
		gpu_free(c->moments);
	free(c->segments);
	free(c->table);
	free(c);
}

static int cuda_copy(struct engine *e, float *to, const float *from, size_t n)
{
	struct cuda_engine *c = cuda_of(e);
	int rc = await(
		c); /* with a deadline: a copy to memory that is not pinned waits in the driver for what is before it */
	int code = rc < 0 ? 0 : gpu_copy(to, from, n * sizeof(*to), c->cuda->stream);

	if (rc < 0)
		return rc;
	return code ? cuda_fail(c->cuda, "a copy", code) : await(c);
}

static size_t shard_bytes(const struct engine *e)
{
	return (e->range.end - e->range.begin) * sizeof(float);
}

static int cuda_init(struct engine *e, uint64_t seed)
{
	struct cuda_engine *c = cuda_of(e);
	float *params = malloc(e->size * sizeof(*params));
	int code, rc;

	if (!params)
		return -ENOMEM;
	model_init_into(&c->setup.config, e->table, params, seed);
	rc = cuda_copy(e, e->params, params, e->size);
	free(params);
	if (rc < 0)
		return rc;
	code = gpu_zero(c->moments, 2 * shard_bytes(e), c->cuda->stream);
	return code ? cuda_fail(c->cuda, "the moments", code) : 0;
}

static int cuda_backward(struct engine *e, size_t rows, const uint8_t *input, const uint8_t *target, float scale)
{
	struct cuda_engine *c = cuda_of(e);
	int rc = gpu_model_backward(c->model, rows, input, target, scale);

	if (rc != -EIO)
		return rc;
	snprintf(e->device->why, sizeof(e->device->why), "%s", gpu_model_why(c->model));
	return -ENOTRECOVERABLE;
}

static double cuda_loss(const struct engine *e)
{
	return gpu_model_loss(((const struct cuda_engine *)e)->model);
}

static int cuda_update(struct engine *e, uint64_t number, float rate)
{
	struct cuda_engine *c = cuda_of(e);
	int code = 0;

	for (size_t i = 0; i < e->segment_count && !code; i++) {
		const struct shard_segment *s = &e->segments[i];
		size_t flat = e->range.begin + s->shard_start;
		struct optimizer_factors f =
			optimizer_factors(&c->setup.optimizer, number, rate, e->table[s->tensor].dims == 2);
		struct gpu_adam adam = {f.beta1, f.beta2, f.epsilon, f.rate, f.second_unbias, f.keep};

		code = gpu_adam(s->count, &adam, e->params + flat, e->grads + flat,
				e->moment[SHARD_EXP_AVG] + s->shard_start, e->moment[SHARD_EXP_AVG_SQ] + s->shard_start,
				c->cuda->stream);
	}
	return code ? cuda_fail(c->cuda, "the update", code) : 0;
}

static float *cuda_room(struct engine *e, size_t n)
{
	struct cuda_engine *c = cuda_of(e);
	void *room = NULL;

	if (gpu_malloc(&room, n * sizeof(float) + 1))
		return NULL;
	if (!gpu_zero(room, n * sizeof(float), c->cuda->stream))
		return room;
	gpu_free(room);
	return NULL;
}

static void cuda_drop(struct engine *e, float *room)
{
	(void)e;
	if (room)
		gpu_free(room);
}

static int cuda_zero(struct engine *e, float *at, size_t n)
{
	struct cuda_engine *c = cuda_of(e);
	int code = gpu_zero(at, n * sizeof(*at), c->cuda->stream);

	return code ? cuda_fail(c->cuda, "zeros", code) : 0;
}

static int cuda_pack(struct engine *e, enum compress_kind kind, const float *from, const float *residual, size_t count,
		     float *to, float *left)
{
	struct cuda_engine *c = cuda_of(e);
	int code = gpu_compress_pack(kind, from, residual, count, to, left, c->cuda->stream);

	return code ? cuda_fail(c->cuda, "packing gradients", code) : 0;
}

static int cuda_add(struct engine *e, enum compress_kind kind, const float *packed, struct shard_range range,
		    float *sum)
{
	struct cuda_engine *c = cuda_of(e);
	int code = gpu_compress_add(kind, packed, range.begin, range.end, sum, c->cuda->stream);

	return code ? cuda_fail(c->cuda, "adding gradients", code) : 0;
}

static const struct engine_ops cuda_ops = {
	.free = cuda_free,
	.init = cuda_init,
	.backward = cuda_backward,
	.loss = cuda_loss,
	.update = cuda_update,
	.get = cuda_copy,
	.put = cuda_copy,
	.room = cuda_room,
	.drop = cuda_drop,
	.zero = cuda_zero,
	.pack = cuda_pack,
	.add = cuda_add,
};

static int lay_out(struct cuda_engine *c)
{
	struct engine *e = &c->base;

	e->tensors = tensor_count(&c->setup.config);
	e->table = c->table = calloc(e->tensors, sizeof(*c->table));
	e->segments = c->segments = calloc(e->tensors, sizeof(*c->segments));
	if (!c->table || !c->segments)
		return -ENOMEM;
	e->size = tensor_layout(&c->setup.config, c->table);
	e->range = shard_range(e->size, c->setup.rank, c->setup.world);
	e->segment_count = shard_segments(c->table, e->tensors, e->range, c->segments, e->tensors);
	return 0;
}

static int make_moments(struct cuda_engine *c)
{
	struct engine *e = &c->base;
	int code = gpu_malloc(&c->moments, 2 * shard_bytes(e) + 1);

	e->moment[SHARD_EXP_AVG] = c->moments;
	e->moment[SHARD_EXP_AVG_SQ] = e->moment[SHARD_EXP_AVG] + (e->range.end - e->range.begin);
	if (!code)
		code = gpu_zero(c->moments, 2 * shard_bytes(e), c->cuda->stream);
	return code ? cuda_fail(c->cuda, "the moments", code) : 0;
}

static int make_model(struct cuda_engine *c)
{
	const struct gpu_model_setup setup = {
		.config = c->setup.config,
		.max_rows = c->setup.max_rows,
		.room = (size_t)c->setup.world * shard_range(c->base.size, 0, c->setup.world).end,
		.recompute = c->setup.recompute,
		.blas = c->cuda->blas,
		.stream = c->cuda->stream,
	};
	int rc = gpu_model_create(&setup, &c->model);

	if (rc < 0 && c->model)
		snprintf(c->base.device->why, DEVICE_WHY_SIZE, "%s", gpu_model_why(c->model));
	if (rc < 0)
		return rc == -EIO ? -ENOTRECOVERABLE : rc;
	c->base.params = gpu_model_params(c->model);
	c->base.grads = gpu_model_grads(c->model);
	return 0;
}

int engine_cuda_create(struct platform *platform, const struct engine_setup *setup, struct engine **engine)
{
	struct cuda_engine *c = calloc(1, sizeof(*c));
	int rc;

	*engine = NULL;
	if (!c)
		return -ENOMEM;
	c->cuda = (struct cuda *)platform;
	c->setup = *setup;
	c->base.ops = &cuda_ops;
	c->base.device = &platform->device;
	c->base.ordinal = c->cuda->ordinal;
	c->base.stream = c->cuda->stream;
	rc = lay_out(c);
	if (rc == 0)
		rc = make_model(c);
	if (rc == 0)
		rc = make_moments(c);
	if (rc < 0) {
		cuda_free(&c->base);
		return rc;
	}
	*engine = &c->base;
	return 0;
}
