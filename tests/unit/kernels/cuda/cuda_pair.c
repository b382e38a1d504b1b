#include "cuda_pair.h"

#include "kept.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "format/tensor/digest.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static const struct device_ops *const ops = &device_cuda_ops;

static void make_spans(struct pair *p, struct pair_gpu *g, uint64_t *leaf)
{
	g->spans[0] = (struct span){.memory = g->state + 8, .row_bytes = 5 * LEAF_SIZE + 10};
	g->spans[1] = (struct span){.memory = g->state + (600 << 10),
				    .row_bytes = 200,
				    .ndim = 1,
				    .count = {400},
				    .stride = {512},
				    .group = 1};
	for (int i = 0; i < PAIR_SPANS; i++) {
		g->spans[i].arena_at = p->arena_bytes - PAIR_HEAD;
		g->spans[i].first_leaf = *leaf;
		p->arena_bytes += span_bytes(&g->spans[i]);
		*leaf += leaf_count(span_bytes(&g->spans[i]));
	}
}

struct pair *pair_memory(uint64_t seed)
{
	struct pair *p = calloc(1, sizeof(*p));
	uint64_t leaf = 0;
	log_set_level(LOG_ERROR); /* teardown after injected errors warns, as it should */
	p->fake = cuda_fake_new(seed);
	p->arena_bytes = PAIR_HEAD;
	for (int i = 0; i < 2; i++) {
		p->gpus[i].state = kept_take(PAIR_STATE);
		make_spans(p, &p->gpus[i], &leaf);
	}
	p->arena = kept_take(p->arena_bytes);
	memset(p->arena, 0xee, p->arena_bytes);
	for (int i = 0; i < 2; i++)
		p->gpus[i].target = (struct capture_target){.progress = (void *)(p->arena + 128 * i),
							    .done = (void *)(p->arena + 128 * i + 64),
							    .leaves = (void *)(p->arena + 256)};
	return p;
}

static int gpu_up(struct pair *p, int i, unsigned flags)
{
	struct cuda_rt *rt = cuda_fake_rt(p->fake);
	struct pair_gpu *g = &p->gpus[i];
	int rc = device_cuda_open(rt, i, &g->dev, &p->err);
	if (rc == 0)
		rc = ops->arena_attach(g->dev, p->arena, p->arena_bytes, &p->err);
	if (rc == 0)
		rc = ops->plan_new(g->dev, p->arena + PAIR_HEAD, g->spans, PAIR_SPANS, PAIR_GRANULE, flags, &g->plan,
				   &p->err);
	cuda_fake_select(p->fake, i);
	if (rc == 0)
		g->stream = cuda_fake_stream(p->fake);
	return rc;
}

int pair_up(struct pair *p, unsigned flags)
{
	int rc = gpu_up(p, 0, flags);
	if (rc == 0)
		rc = gpu_up(p, 1, flags);
	cuda_fake_select(p->fake, 0);
	return rc;
}

struct pair *pair_make(uint64_t seed, unsigned flags)
{
	struct pair *p = pair_memory(seed);
	cr_assert_eq(pair_up(p, flags), 0, "%s", p->err.text);
	return p;
}

void pair_free(struct pair *p, bool lost)
{
	struct cuda_rt *rt = cuda_fake_rt(p->fake);
	if (lost)
		rt->patience = 20 * CLOCK_NS_PER_MS;
	for (int i = 0; i < 2; i++) {
		ops->plan_free(p->gpus[i].plan);
		if (p->gpus[i].stream)
			rt->stream_destroy(rt, p->gpus[i].stream);
		if (!p->gpus[i].dev)
			continue;
		ops->arena_detach(p->gpus[i].dev, p->arena);
		ops->close(p->gpus[i].dev);
	}
	cuda_fake_settle(p->fake);
	if (!lost)
		cr_assert_eq(cuda_fake_live(p->fake), 0u, "%lu objects leaked", cuda_fake_live(p->fake));
	cuda_fake_free(p->fake);
	void (*part)(void *piece) = lost ? kept_end : kept_give; /* what a lost GPU has pinned stays so */
	part(p->gpus[0].state);
	part(p->gpus[1].state);
	part(p->arena);
	free(p);
}

int pair_launch(struct pair *p, struct rt_stream *stream)
{
	int rc = 0;
	for (int i = 0; i < 2 && rc == 0; i++)
		rc = ops->plan_launch(p->gpus[i].plan, stream, &p->gpus[i].target, 0, &p->err);
	return rc;
}

int pair_fence(struct pair *p, uint32_t group, struct rt_stream *stream)
{
	int rc = 0;
	for (int i = 0; i < 2 && rc == 0; i++)
		rc = ops->plan_fence(p->gpus[i].plan, group, stream, 0, NULL, &p->err);
	return rc;
}

static void fill_span(const struct span *span, int fill)
{
	char *bytes = malloc(span_bytes(span));
	memset(bytes, fill, span_bytes(span));
	span_unpack(span, bytes, 0, span_bytes(span));
	free(bytes);
}

static void run_kernel(void *arg)
{
	const struct pair_kernel *k = arg;
	for (int i = 0; i < PAIR_SPANS; i++)
		if (k->group == FENCE_ALL || k->group == k->gpu->spans[i].group)
			fill_span(&k->gpu->spans[i], k->fill);
}

void pair_kernel(struct pair *p, int gpu, struct rt_stream *stream, int of, uint32_t group, int fill)
{
	cr_assert_lt(p->nkernels, PAIR_KERNELS);
	struct pair_kernel *k = &p->kernels[p->nkernels++];
	*k = (struct pair_kernel){&p->gpus[of], group, fill};
	cuda_fake_select(p->fake, gpu);
	cuda_fake_call(p->fake, stream, run_kernel, k);
	cuda_fake_select(p->fake, 0);
}

void pair_order(struct pair *p, int to, struct rt_stream *before, struct rt_stream *after)
{
	struct cuda_rt *rt = cuda_fake_rt(p->fake);
	struct rt_event *event;
	cuda_fake_select(p->fake, !to);
	cr_assert_eq(rt->event_create(rt, &event), 0);
	cr_assert_eq(rt->event_record(rt, event, before), 0);
	cuda_fake_select(p->fake, to);
	cr_assert_eq(rt->stream_wait(rt, after, event), 0);
	cr_assert_eq(rt->event_destroy(rt, event), 0);
	cuda_fake_select(p->fake, 0);
}

bool pair_holds(const struct pair *p, int gpu, int fill)
{
	const struct span *spans = p->gpus[gpu].spans;
	for (int i = 0; i < PAIR_SPANS; i++) {
		const char *at = p->arena + PAIR_HEAD + spans[i].arena_at;
		if (*at != fill || memcmp(at, at + 1, span_bytes(&spans[i]) - 1))
			return false;
	}
	return true;
}

static bool digests_are(const struct pair *p, const struct span *span, const void *bytes)
{
	uint64_t want[16];
	digest_leaves(bytes, span_bytes(span), want);
	return !memcmp(want, p->gpus[0].target.leaves + span->first_leaf, leaf_count(span_bytes(span)) * 8);
}

bool pair_digested(const struct pair *p, int gpu, int fill)
{
	bool good = true;
	char *bytes = kept_take(PAIR_STATE);
	memset(bytes, fill, PAIR_STATE);
	for (int i = 0; i < PAIR_SPANS; i++)
		good = good && digests_are(p, &p->gpus[gpu].spans[i], bytes);
	kept_give(bytes);
	return good;
}

bool pair_digests_match(const struct pair *p, int gpu)
{
	bool good = true;
	for (int i = 0; i < PAIR_SPANS; i++) {
		const struct span *span = &p->gpus[gpu].spans[i];
		good = good && digests_are(p, span, p->arena + PAIR_HEAD + span->arena_at);
	}
	return good;
}
