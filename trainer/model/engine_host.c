#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/engine.h"
#include "model/model.h"

struct host_engine {
	struct engine base; /* first */
	struct model *model;
	struct optimizer *optimizer;
	double loss;
};

static struct host_engine *host_of(struct engine *e)
{
	return (struct host_engine *)e;
}

static void host_free(struct engine *e)
{
	optimizer_free(host_of(e)->optimizer);
	model_free(host_of(e)->model);
	free(e);
}

static int host_init(struct engine *e, uint64_t seed)
{
	size_t bytes = (e->range.end - e->range.begin) * sizeof(float);

	model_init(host_of(e)->model, seed);
	memset(e->moment[SHARD_EXP_AVG], 0, bytes);
	memset(e->moment[SHARD_EXP_AVG_SQ], 0, bytes);
	return 0;
}

static int host_backward(struct engine *e, size_t rows, const uint8_t *input, const uint8_t *target, float scale)
{
	return model_backward(host_of(e)->model, rows, input, target, scale, &host_of(e)->loss);
}

static double host_loss(const struct engine *e)
{
	return ((const struct host_engine *)e)->loss;
}

static int host_update(struct engine *e, uint64_t number, float rate)
{
	optimizer_step(host_of(e)->optimizer, e->params, e->grads, number, rate);
	return 0;
}

static int host_copy(struct engine *e, float *to, const float *from, size_t n)
{
	(void)e;
	memcpy(to, from, n * sizeof(*to));
	return 0;
}

static float *host_room(struct engine *e, size_t n)
{
	size_t bytes = (n * sizeof(float) / 4096 + 1) * 4096;
	float *p = aligned_alloc(4096, bytes);

	(void)e;
	if (p)
		memset(p, 0, bytes);
	return p;
}

static void host_drop(struct engine *e, float *room)
{
	(void)e;
	free(room);
}

static int host_zero(struct engine *e, float *at, size_t n)
{
	(void)e;
	memset(at, 0, n * sizeof(*at));
	return 0;
}

static int host_pack(struct engine *e, enum compress_kind kind, const float *from, const float *residual, size_t count,
		     float *to, float *left)
{
	(void)e;
	compress_pack(kind, from, residual, count, to, left);
	return 0;
}

static int host_add(struct engine *e, enum compress_kind kind, const float *packed, struct shard_range range,
		    float *sum)
{
	(void)e;
	compress_add(kind, packed, range.begin, range.end, sum);
	return 0;
}

static const struct engine_ops host_ops = {
	.free = host_free,
	.init = host_init,
	.backward = host_backward,
	.loss = host_loss,
	.update = host_update,
	.get = host_copy,
	.put = host_copy,
	.room = host_room,
	.drop = host_drop,
	.zero = host_zero,
	.pack = host_pack,
	.add = host_add,
};

static int host_create(struct platform *platform, const struct engine_setup *setup, struct engine **engine)
{
	struct host_engine *h = calloc(1, sizeof(*h));
	struct engine *e = &h->base;
	int rc;

	*engine = NULL;
	if (!h)
		return -ENOMEM;
	rc = model_create(&setup->config, setup->max_rows, &h->model);
	if (rc == 0) {
		e->table = model_tensors(h->model, &e->tensors);
		rc = optimizer_create(&setup->optimizer, e->table, e->tensors, setup->rank, setup->world,
				      &h->optimizer);
	}
	if (rc < 0) {
		host_free(e);
		return rc;
	}
	e->ops = &host_ops;
	e->device = &platform->device;
	e->ordinal = CKPT_HOST;
	e->size = model_size(h->model);
	e->params = model_params(h->model);
	e->grads = model_grads(h->model);
	e->moment[SHARD_EXP_AVG] = optimizer_moment(h->optimizer, SHARD_EXP_AVG);
	e->moment[SHARD_EXP_AVG_SQ] = optimizer_moment(h->optimizer, SHARD_EXP_AVG_SQ);
	e->range = optimizer_range(h->optimizer);
	e->segments = optimizer_segments(h->optimizer, &e->segment_count);
	*engine = e;
	return 0;
}

static void host_close(struct platform *platform)
{
	free(platform);
}

struct platform *platform_host(void)
{
	struct platform *p = calloc(1, sizeof(*p));

	if (p)
		*p = (struct platform){
			.name = "host", .device = device_host(), .create = host_create, .close = host_close};
	return p;
}
