#include "model/squeeze.h"

#include <errno.h>

#include "common/shard.h"

int squeeze_create(struct squeeze *s, enum compress_kind kind, struct engine *engine, int world)
{
	*s = (struct squeeze){.kind = kind, .engine = engine, .count = engine->size};
	if (kind == COMPRESS_NONE)
		return 0;
	s->residual = engine->ops->room(engine, s->count);
	s->parts = engine->ops->room(engine, (size_t)world * compress_size(kind, s->count));
	s->left = engine->ops->room(engine, s->count);
	return s->residual && s->left && s->parts ? 0 : -ENOMEM;
}

void squeeze_free(struct squeeze *s)
{
	if (s->kind != COMPRESS_NONE) {
		s->engine->ops->drop(s->engine, s->parts);
		s->engine->ops->drop(s->engine, s->left);
		s->engine->ops->drop(s->engine, s->residual);
	}
	*s = (struct squeeze){.kind = COMPRESS_NONE};
}

int squeeze_reset(struct squeeze *s)
{
	return s->residual ? s->engine->ops->zero(s->engine, s->residual, s->count) : 0;
}

int squeeze_reduce_scatter(struct squeeze *s, struct communicator *c, float *grads)
{
	const struct engine_ops *ops = s->engine->ops;
	size_t size = compress_size(s->kind, s->count);
	struct shard_range mine = shard_range(s->count, c->rank, c->world);
	int rc =
		ops->pack(s->engine, s->kind, grads, s->residual, s->count, s->parts + (size_t)c->rank * size, s->left);

	if (rc == 0)
		rc = communicator_all_gather(c, s->parts, (size_t)c->world * size);
	if (rc == 0)
		rc = ops->zero(s->engine, grads + mine.begin, mine.end - mine.begin);
	for (size_t r = 0; r < (size_t)c->world && rc == 0; r++)
		rc = ops->add(s->engine, s->kind, s->parts + r * size, mine, grads);
	return rc;
}

int squeeze_commit(struct squeeze *s)
{
	return s->residual ? s->engine->ops->put(s->engine, s->residual, s->left, s->count) : 0;
}
