#include "cuda_world.h"

#include "kept.h"

#include "base/bytes.h"
#include "base/log.h"
#include "format/tensor/digest.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

/* Pattern `fill` begins at the word `fill` of one long one. */
static uint32_t words[WORLD_STATE / 4 + WORLD_FILLS];

static void make_patterns(void)
{
	for (uint32_t i = 0; i < WORLD_STATE / 4 + WORLD_FILLS; i++)
		words[i] = i * 2654435761u;
}

static const uint32_t *pattern(uint32_t fill)
{
	cr_assert_lt(fill, WORLD_FILLS);
	return words + fill;
}

static void make_spans(struct cuda_world *w)
{
	w->spans[0] = (struct span){.memory = w->state + (1 << 20), .row_bytes = 5 * LEAF_SIZE + 10};
	w->spans[1] = (struct span){.memory = w->state + (256 << 10),
				    .row_bytes = 200,
				    .ndim = 2,
				    .count = {5, 100},
				    .stride = {51200, 512}};
	w->spans[2] = (struct span){.memory = w->state + (700 << 10),
				    .row_bytes = 3000,
				    .ndim = 1,
				    .count = {60},
				    .stride = {4096},
				    .skip = 4567,
				    .take = 150000};
	w->spans[3] = (struct span){
		.memory = w->state + WORLD_STATE - 8, .row_bytes = 8, .ndim = 1, .count = {30}, .stride = {-16}};
	static const uint32_t groups[] = {3, 3, 0, 5};
	for (int i = 0; i < WORLD_SPANS; i++) {
		w->spans[i].group = groups[i];
		w->spans[i].arena_at = w->bytes;
		w->spans[i].first_leaf = w->nleaves;
		w->bytes += span_bytes(&w->spans[i]);
		w->nleaves += leaf_count(span_bytes(&w->spans[i]));
	}
	cr_assert_leq(w->nleaves, WORLD_LEAVES);
}

struct cuda_world *cuda_world_memory(uint64_t seed)
{
	struct cuda_world *w = calloc(1, sizeof(*w));
	log_set_level(LOG_ERROR); /* teardown after injected errors warns, as it should */
	if (!words[1])
		make_patterns();
	w->fake = cuda_fake_new(seed);
	w->state = kept_take(WORLD_STATE);
	make_spans(w);
	w->arena_bytes = 4096 + w->bytes;
	w->arena = kept_take(w->arena_bytes);
	w->packed = kept_take(w->bytes);
	w->progress = (void *)w->arena;
	w->done = (void *)(w->arena + 64);
	w->leaves = (void *)(w->arena + 128);
	w->data = w->arena + 4096;
	w->target = (struct capture_target){.progress = w->progress, .done = w->done, .leaves = w->leaves};
	return w;
}

struct cuda_world *cuda_world_make(uint64_t seed)
{
	return cuda_world_make_with(seed, 0);
}

struct cuda_world *cuda_world_make_with(uint64_t seed, unsigned flags)
{
	struct cuda_world *w = cuda_world_memory(seed);
	cuda_world_up(w, flags);
	return w;
}

void cuda_world_up(struct cuda_world *w, unsigned flags)
{
	struct cuda_rt *rt = cuda_fake_rt(w->fake);
	const struct device_ops *ops = &device_cuda_ops;
	cr_assert_eq(device_cuda_open(rt, 0, &w->dev, &w->err), 0, "%s", w->err.text);
	cr_assert_eq(ops->arena_attach(w->dev, w->arena, w->arena_bytes, &w->err), 0, "%s", w->err.text);
	cr_assert_eq(ops->plan_new(w->dev, w->data, w->spans, WORLD_SPANS, WORLD_GRANULE, flags, &w->plan, &w->err), 0,
		     "%s", w->err.text);
	w->stream = cuda_fake_stream(w->fake);
}

static void free_memory(struct cuda_world *w)
{
	cuda_fake_free(w->fake);
	kept_give(w->state);
	kept_give(w->arena);
	kept_give(w->packed);
	free(w);
}

void cuda_world_free(struct cuda_world *w)
{
	const struct device_ops *ops = &device_cuda_ops;
	struct cuda_rt *rt = cuda_fake_rt(w->fake);
	ops->plan_free(w->plan);
	if (w->stream)
		rt->stream_destroy(rt, w->stream);
	if (w->dev) {
		ops->arena_detach(w->dev, w->arena);
		ops->close(w->dev);
	}
	cuda_fake_settle(w->fake);
	cr_assert_eq(cuda_fake_live(w->fake), 0u, "%lu objects leaked", cuda_fake_live(w->fake));
	free_memory(w);
}

int cuda_world_launch(struct cuda_world *w)
{
	return device_cuda_ops.plan_launch(w->plan, w->stream, &w->target, 0, &w->err);
}

int cuda_world_fence(struct cuda_world *w)
{
	return device_cuda_ops.plan_fence(w->plan, FENCE_ALL, w->stream, 0, NULL, &w->err);
}

static void overwrite(struct span *span, uint32_t fill)
{
	char *bytes = malloc(span_bytes(span));
	memset(bytes, (int)fill, span_bytes(span));
	span_unpack(span, bytes, 0, span_bytes(span));
	free(bytes);
}

static void run_kernel(void *arg)
{
	const struct painting *p = arg;
	p->w->painted_at = atomic_load(p->w->progress);
	if (p->group == FENCE_ALL)
		memcpy(p->w->state, pattern(p->fill), WORLD_STATE);
	for (int i = 0; i < WORLD_SPANS; i++)
		if (p->w->spans[i].group == p->group)
			overwrite(&p->w->spans[i], p->fill);
}

void cuda_world_kernel_on(struct cuda_world *w, uint32_t group, uint32_t fill)
{
	cr_assert_lt(w->kernels, WORLD_KERNELS);
	struct painting *p = &w->paintings[w->kernels++];
	*p = (struct painting){w, fill, group};
	cuda_fake_call(w->fake, w->stream, run_kernel, p);
}

void cuda_world_kernel(struct cuda_world *w, uint32_t fill)
{
	cuda_world_kernel_on(w, FENCE_ALL, fill);
}

void cuda_world_expect(struct cuda_world *w, uint32_t fill)
{
	char *state = (char *)(uintptr_t)pattern(fill); /* is only read */
	for (int i = 0; i < WORLD_SPANS; i++) {
		struct span span = w->spans[i];
		char *packed = w->packed + span.arena_at;
		span.memory = state + ((char *)span.memory - w->state);
		span_pack(&span, packed, 0, span_bytes(&span));
		digest_leaves(packed, span_bytes(&span), w->want + span.first_leaf);
	}
}

bool cuda_world_matches(const struct cuda_world *w)
{
	return !memcmp(w->data, w->packed, w->bytes);
}

bool cuda_world_digests_match(const struct cuda_world *w)
{
	for (int i = 0; i < WORLD_SPANS; i++) {
		uint64_t digests[WORLD_LEAVES], bytes = span_bytes(&w->spans[i]);
		digest_leaves(w->data + w->spans[i].arena_at, bytes, digests);
		if (memcmp(digests, w->leaves + w->spans[i].first_leaf, leaf_count(bytes) * 8))
			return false;
	}
	return true;
}

int cuda_world_restore(struct cuda_world *w, uint64_t from, uint64_t to, uint64_t *bad_leaf)
{
	struct span parts[WORLD_SPANS];
	size_t n = 0;
	for (int i = 0; i < WORLD_SPANS; i++) {
		const struct span *span = &w->spans[i];
		uint64_t bytes = span_bytes(span), first = max_u64(from, span->first_leaf);
		uint64_t end = min_u64(to, span->first_leaf + leaf_count(bytes));
		if (first >= end)
			continue;
		uint64_t at = (first - span->first_leaf) * LEAF_SIZE;
		parts[n++] = span_part(span, at, min_u64((end - span->first_leaf) * LEAF_SIZE, bytes) - at);
	}
	return device_cuda_ops.restore(w->dev, w->packed, parts, n, w->want, w->stream, bad_leaf, &w->err);
}
