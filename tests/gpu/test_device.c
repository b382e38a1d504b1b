/* The CUDA device layer and the kernels on a GPU: what the emulator and the fake runtime stand for elsewhere. Prints TAP; without a GPU it
 * ends with 77 and the reason. scripts/gpu-check runs it, also under compute-sanitizer. */
#include "../../bench/shared/gpu.h"
#include "../unit/kernels/sample.h"

#include "base/bytes.h"
#include "format/files/planes.h"
#include "format/tensor/digest.h"
#include "gpu/gpu_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPANS = 300, HEAD = 8192, LARGE = 3 << 20, BIG = 512 << 20 };

/* Spans of every shape whose memory is the device's; `host` is what stands there. */
struct load {
	struct gpu g;
	struct span spans[SPANS], host[SPANS];
	char *rooms[SPANS], *device[SPANS];
	size_t room_bytes[SPANS];
	uint64_t bytes, nleaves, *want;
	char *packed, *arena;
	size_t arena_bytes;
	struct capture_target target;
};

static int cases, failed;

static void report(bool ok, const char *what)
{
	printf("%s %d - %s\n", ok ? "ok" : "not ok", ++cases, what);
	fflush(stdout);
	failed += !ok;
}

static void to_device(struct load *l, size_t i)
{
	struct cuda_rt *rt = l->g.rt;
	gpu_check(&l->g, rt->copy(rt, l->device[i], l->rooms[i], l->room_bytes[i], l->g.stream), "copying");
	gpu_drain(&l->g, l->g.stream);
}

static void draw_span(struct load *l, size_t i, uint64_t *rng)
{
	struct sample s = sample_make(rng, i % 5 ? 3 : SPAN_NDIM_MAX);
	if (i % 4 == 0) { /* packed, of any length and alignment */
		size_t beside = sample_below(rng, 17), n = 1 + sample_below(rng, i % 8 ? LARGE : 3000);
		free(s.room);
		s.room = malloc(s.room_bytes = n + beside);
		for (size_t k = 0; k < s.room_bytes; k++)
			s.room[k] = (char)(sample_next(rng) >> 32);
		s.span = (struct span){.memory = s.room + beside, .row_bytes = n};
	}
	l->rooms[i] = s.room;
	l->room_bytes[i] = s.room_bytes;
	l->device[i] = gpu_memory(&l->g, s.room_bytes);
	s.span.group = (uint32_t)(i / 100);
	s.span.arena_at = l->bytes;
	s.span.first_leaf = l->nleaves;
	l->bytes += span_bytes(&s.span);
	l->nleaves += leaf_count(span_bytes(&s.span));
	l->host[i] = l->spans[i] = s.span;
	l->spans[i].memory = l->device[i] + ((char *)s.span.memory - s.room);
	to_device(l, i);
}

static void make(struct load *l)
{
	struct err err;
	uint64_t rng = 12345;
	l->g = gpu_open();
	for (size_t i = 0; i < SPANS; i++)
		draw_span(l, i, &rng);
	l->want = calloc(l->nleaves, sizeof(*l->want));
	l->packed = calloc(1, l->bytes);
	for (size_t i = 0; i < SPANS; i++) {
		const struct span *s = &l->host[i];
		span_pack(s, l->packed + s->arena_at, 0, span_bytes(s));
		digest_leaves(l->packed + s->arena_at, span_bytes(s), l->want + s->first_leaf);
	}
	l->arena_bytes = align_up(HEAD + l->bytes + l->nleaves * 8, 4096) + 4096;
	l->arena = gpu_arena(l->arena_bytes);
	l->target = (struct capture_target){.progress = (void *)l->arena,
					    .done = (void *)(l->arena + 64),
					    .leaves = (void *)(l->arena + HEAD + align_up(l->bytes, 64))};
	gpu_must(l->g.ops->arena_attach(l->g.dev, l->arena, l->arena_bytes, &err), &err, "pinning the arena");
}

static void await_done(struct load *l)
{
	double began = gpu_seconds();
	while (!atomic_load(l->target.done))
		if (gpu_seconds() - began > 60)
			break;
	gpu_drain(&l->g, l->g.stream);
}

static bool captured(struct load *l)
{
	return atomic_load(l->target.done) == 1 && atomic_load(l->target.progress) == l->bytes &&
	       !memcmp(l->arena + HEAD, l->packed, l->bytes) && !memcmp(l->target.leaves, l->want, l->nleaves * 8);
}

static void test_capture(struct load *l, unsigned flags, const char *what)
{
	struct err err;
	struct plan *plan;
	const struct device_ops *ops = l->g.ops;
	gpu_must(ops->plan_new(l->g.dev, l->arena + HEAD, l->spans, SPANS, 1 << 20, flags, &plan, &err), &err, what);
	bool ok = true;
	for (int round = 0; round < 3; round++) {
		memset(l->arena + HEAD, 0x5a, l->arena_bytes - HEAD);
		gpu_must(ops->plan_launch(plan, l->g.stream, &l->target, CAPTURE_STRICT, &err), &err, what);
		for (uint32_t group = 0; group < 3; group++)
			gpu_must(ops->plan_fence(plan, group, l->g.stream, 0, NULL, &err), &err, what);
		gpu_must(ops->plan_fence(plan, FENCE_ALL, l->g.stream, 0, NULL, &err), &err, what);
		await_done(l);
		ok = ok && captured(l);
	}
	ops->plan_free(plan);
	report(ok, what);
}

/* Of the arena, which is marked all over, every `nth` leaf was copied, and no other; 0: none was. */
static bool only_copied(const struct load *l, uint64_t nth)
{
	bool ok = !memcmp(l->target.leaves, l->want, l->nleaves * 8);
	for (size_t i = 0; i < SPANS; i++) {
		uint64_t bytes = span_bytes(&l->spans[i]);
		for (uint64_t at = 0, leaf = l->spans[i].first_leaf; at < bytes; at += LEAF_SIZE, leaf++) {
			const char *there = l->arena + HEAD + l->spans[i].arena_at + at;
			uint64_t n = min_u64(LEAF_SIZE, bytes - at);
			bool marked = there[0] == 0x5a && !memcmp(there, there + 1, n - 1);
			ok = ok && (nth && leaf % nth == 0 ? !memcmp(there, l->packed + l->spans[i].arena_at + at, n)
							   : marked);
		}
	}
	return ok && atomic_load(l->target.done) == 1 && atomic_load(l->target.progress) == l->bytes;
}

/* The arena is said to hold everything, then everything but every third leaf. */
static void test_held(struct load *l, unsigned flags, const char *what)
{
	enum { NTH = 3 };
	struct err err;
	struct plan *plan;
	const struct device_ops *ops = l->g.ops;
	uint64_t *newest = malloc(l->nleaves * 8);
	bool ok = true;
	gpu_must(ops->plan_new(l->g.dev, l->arena + HEAD, l->spans, SPANS, 1 << 20, flags, &plan, &err), &err, what);
	for (int round = 0; round < 3; round++) {
		if (round)
			memset(l->arena + HEAD, 0x5a, l->bytes);
		for (uint64_t i = 0; round == 2 && i < l->nleaves; i += NTH)
			l->target.leaves[i] ^= 1;
		memcpy(newest, l->target.leaves, l->nleaves * 8);
		l->target.held = round;
		l->target.newest = newest;
		gpu_must(ops->plan_launch(plan, l->g.stream, &l->target, 0, &err), &err, what);
		gpu_must(ops->plan_fence(plan, FENCE_ALL, l->g.stream, 0, NULL, &err), &err, what);
		await_done(l);
		ok = ok && (round ? only_copied(l, round == 2 ? NTH : 0) : captured(l));
	}
	l->target.held = false;
	l->target.newest = NULL;
	ops->plan_free(plan);
	free(newest);
	report(ok, what);
}

static void test_restore(struct load *l)
{
	struct err err;
	bool ok = true;
	uint64_t bad = 0;
	for (size_t i = 0; i < SPANS; i++) { /* all else in the rooms must stay */
		memset(l->packed + l->host[i].arena_at, (int)i, span_bytes(&l->host[i]));
		span_unpack(&l->host[i], l->packed + l->host[i].arena_at, 0, span_bytes(&l->host[i]));
		digest_leaves(l->packed + l->host[i].arena_at, span_bytes(&l->host[i]),
			      l->want + l->host[i].first_leaf);
	}
	gpu_must(l->g.ops->restore(l->g.dev, l->packed, l->spans, SPANS, l->want, l->g.stream, NULL, &err), &err,
		 "restore");
	for (size_t i = 0; i < SPANS; i++) {
		char *back = malloc(l->room_bytes[i]);
		gpu_check(&l->g, l->g.rt->copy(l->g.rt, back, l->device[i], l->room_bytes[i], l->g.stream), "copying");
		gpu_drain(&l->g, l->g.stream);
		ok = ok && !memcmp(back, l->rooms[i], l->room_bytes[i]);
		free(back);
	}
	report(ok, "a restore brings back every byte and no other");
	l->packed[l->bytes - 1] ^= 1;
	int rc = l->g.ops->restore(l->g.dev, l->packed, l->spans, SPANS, l->want, l->g.stream, &bad, &err);
	report(rc == -EBADMSG && bad == l->nleaves - 1, "a restore names the leaf that arrived damaged");
}

/* The state is overwritten right behind the launch, without a fence: the copy is half the old state and half the new, and differs from
 * the digests wherever it is new. */
static void test_torn(struct load *l)
{
	struct err err;
	struct plan *plan;
	struct gpu *g = &l->g;
	char *state = gpu_memory(g, BIG), *other = gpu_memory(g, BIG), *arena = gpu_arena(HEAD + BIG + (1 << 20));
	uint64_t n = BIG / LEAF_SIZE, differ = 0, *leaves = (void *)(arena + HEAD + BIG), *now = malloc(n * 8);
	struct span span = {.memory = state, .row_bytes = BIG};
	struct capture_target target = {.progress = (void *)arena, .done = (void *)(arena + 64), .leaves = leaves};
	memset(arena + HEAD, 0x11, BIG);
	gpu_must(g->ops->arena_attach(g->dev, arena, HEAD + BIG + (1 << 20), &err), &err, "pinning");
	gpu_check(g, g->rt->copy(g->rt, state, arena + HEAD, BIG, g->stream), "copying");
	gpu_drain(g, g->stream);
	memset(arena + HEAD, 0x22, BIG);
	gpu_check(g, g->rt->copy(g->rt, other, arena + HEAD, BIG, g->stream), "copying");
	gpu_drain(g, g->stream);
	gpu_must(g->ops->plan_new(g->dev, arena + HEAD, &span, 1, 64 << 20, 0, &plan, &err), &err, "plan");
	gpu_must(g->ops->plan_launch(plan, g->stream, &target, 0, &err), &err, "launch");
	gpu_check(g, g->rt->copy(g->rt, state, other, BIG, g->stream), "the optimiser's step");
	l->target.done = target.done;
	await_done(l);
	digest_leaves(arena + HEAD, BIG, now);
	bool all_old = true;
	char *old = malloc(LEAF_SIZE);
	memset(old, 0x11, LEAF_SIZE);
	for (uint64_t i = 0; i < n; i++) {
		differ += now[i] != leaves[i];
		all_old = all_old && leaves[i] == digest_leaf(old, LEAF_SIZE);
	}
	report(all_old, "digests are those of the state at the launch");
	report(differ > 0, "a step without the fence shows in the digests");
	g->ops->plan_free(plan);
	g->ops->arena_detach(g->dev, arena);
	free(old);
	free(now);
}

static void test_planes(struct load *l)
{
	enum { N = 100003, SIZES = 4 };
	struct gpu *g = &l->g;
	uint64_t rng = 99;
	bool ok = true;
	char *elements = malloc(N * 8), *there = gpu_memory(g, N * 8), *planes = gpu_memory(g, N * 8);
	uint8_t *back = malloc(N * 8), *want = malloc(N);
	for (size_t i = 0; i < N * 8; i++)
		elements[i] = (char)(sample_next(&rng) >> 32);
	gpu_check(g, g->rt->copy(g->rt, there, elements, N * 8, g->stream), "copying");
	for (unsigned size = 1; size <= 8; size *= 2) {
		gpu_check(g, gpu_planes(there, N, size, planes, 256, g->stream), "planes");
		gpu_check(g, g->rt->copy(g->rt, back, planes, N * size, g->stream), "copying");
		gpu_drain(g, g->stream);
		for (unsigned p = 0; p < size; p++) {
			planes_split(elements, N, size, p, want);
			ok = ok && !memcmp(want, back + (size_t)p * N, N);
		}
	}
	report(ok, "byte planes are those of packed files");
	free(want);
	free(back);
	free(elements);
}

int main(void)
{
	static struct load l;
	make(&l);
	test_capture(&l, 0, "a capture is the state and its digests");
	test_capture(&l, PLAN_STAGED, "a staged capture is the same");
	test_held(&l, 0, "what the arena holds is digested and not copied");
	test_held(&l, PLAN_STAGED, "and so it is in a staged capture");
	test_planes(&l);
	test_restore(&l);
	test_torn(&l);
	l.g.ops->arena_detach(l.g.dev, l.arena);
	l.g.ops->close(l.g.dev);
	printf("1..%d\n", cases);
	return failed != 0;
}
