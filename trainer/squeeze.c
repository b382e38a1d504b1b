#include "squeeze.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shard.h"

/* Page-aligned and zeroed, as what a checkpoint captures is. */
static float *alloc_floats(size_t count)
{
	size_t bytes = (count * sizeof(float) / 4096 + 1) * 4096;
	float *p = aligned_alloc(4096, bytes);

	if (p)
		memset(p, 0, bytes);
	return p;
}

int squeeze_create(struct squeeze *s, enum compress_kind kind, size_t count, int world)
{
	*s = (struct squeeze){.kind = kind, .count = count};
	if (kind == COMPRESS_NONE)
		return 0;
	s->residual = alloc_floats(count);
	s->parts = alloc_floats((size_t)world * compress_size(kind, count));
	s->left = alloc_floats(count);
	return s->residual && s->left && s->parts ? 0 : -ENOMEM;
}

void squeeze_free(struct squeeze *s)
{
	free(s->parts);
	free(s->left);
	free(s->residual);
	*s = (struct squeeze){.kind = COMPRESS_NONE};
}

int squeeze_reduce_scatter(struct squeeze *s, struct crew *c, float *grads)
{
	size_t size = compress_size(s->kind, s->count);
	struct shard_range mine = shard_range(s->count, c->rank, c->world);
	int rc;

	compress_pack(s->kind, grads, s->residual, s->count, s->parts + (size_t)c->rank * size, s->left);
	rc = crew_gather_shards(c, s->parts, (size_t)c->world * size);
	if (rc < 0)
		return rc;
	memset(grads + mine.begin, 0, (mine.end - mine.begin) * sizeof(*grads));
	for (size_t r = 0; r < (size_t)c->world; r++)
		compress_add(s->kind, s->parts + r * size, mine.begin, mine.end, grads);
	return 0;
}

void squeeze_commit(struct squeeze *s)
{
	if (s->residual)
		memcpy(s->residual, s->left, s->count * sizeof(float));
}
