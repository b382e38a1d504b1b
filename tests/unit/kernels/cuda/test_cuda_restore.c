/* Restore on the CUDA device over the fake runtime. */
#include "cuda_world.h"

#include "format/tensor/digest.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct device_ops *const ops = &device_cuda_ops;

Test(cuda_restore, restore_comes_after_the_work_in_the_stream)
{
	for (uint64_t seed = 0; seed < 40; seed++) {
		struct cuda_world *w = cuda_world_make(seed);
		cuda_world_expect(w, 7);
		cuda_world_kernel(w, 8);
		cr_assert_eq(ops->restore(w->dev, w->packed, w->spans, WORLD_SPANS, w->want, w->stream, NULL, &w->err),
			     0, "%s", w->err.text);
		char *packed = malloc(w->bytes);
		for (int i = 0; i < WORLD_SPANS; i++)
			span_pack(&w->spans[i], packed + w->spans[i].arena_at, 0, span_bytes(&w->spans[i]));
		cr_assert_arr_eq(packed, w->packed, w->bytes);
		free(packed);
		cuda_world_free(w);
	}
}

/* More than a piece, and a span that a kernel unpacks. */
Test(cuda_restore, restore_goes_in_pieces_and_finds_the_damage_in_the_last)
{
	enum { BIG = (64 << 20) / 8 * 9, ROWS = 3000 };
	struct cuda_world *w = cuda_world_make(25);
	char *base = calloc(1, BIG + ROWS * 24), *memory = malloc(BIG), *rows = calloc(ROWS, 64);
	uint64_t *leaves = malloc((leaf_count(BIG) + 2) * 8), bad_leaf = 0;
	struct span spans[] = {
		{.memory = rows, .row_bytes = 24, .ndim = 1, .count = {ROWS}, .stride = {64}, .arena_at = BIG},
		{.memory = memory, .row_bytes = BIG, .first_leaf = 2}};
	for (uint64_t i = 0; i < BIG + ROWS * 24; i += 509)
		base[i] = (char)(i / 509);
	digest_leaves(base + BIG, ROWS * 24, leaves);
	digest_leaves(base, BIG, leaves + 2);
	cr_assert_eq(ops->restore(w->dev, base, spans, 2, leaves, w->stream, NULL, &w->err), 0, "%s", w->err.text);
	cr_assert(!memcmp(memory, base, BIG));
	for (int i = 0; i < ROWS; i++)
		cr_assert(!memcmp(rows + 64 * i, base + BIG + 24 * i, 24));
	base[BIG - 1] ^= 1;
	cr_assert_eq(ops->restore(w->dev, base, spans, 2, leaves, w->stream, &bad_leaf, &w->err), -EBADMSG);
	cr_assert_eq(bad_leaf, 2 + leaf_count(BIG) - 1);
	cuda_world_free(w);
	free(leaves);
	free(rows);
	free(memory);
	free(base);
}

Test(cuda_restore, restore_names_the_leaf_that_arrived_damaged)
{
	struct cuda_world *w = cuda_world_make(9);
	cuda_world_expect(w, 7);
	for (int i = 0; i < WORLD_SPANS; i++) {
		uint64_t bad_leaf = 0, last = leaf_count(span_bytes(&w->spans[i])) - 1;
		char *byte = w->packed + w->spans[i].arena_at + last * LEAF_SIZE + 5;
		*byte ^= 0x10;
		cr_assert_eq(
			ops->restore(w->dev, w->packed, w->spans, WORLD_SPANS, w->want, w->stream, &bad_leaf, &w->err),
			-EBADMSG);
		cr_assert_eq(bad_leaf, w->spans[i].first_leaf + last);
		*byte ^= 0x10;
	}
	cuda_world_free(w);
}

/* As it is brought: runs of leaves, in whatever order. */
Test(cuda_restore, restore_in_parts_is_restore)
{
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct cuda_world *w = cuda_world_make(seed);
		uint64_t run = 1 + seed % 5, nruns = (w->nleaves + run - 1) / run;
		cuda_world_expect(w, 7);
		cuda_world_kernel(w, 8);
		for (uint64_t i = 0; i < nruns; i++) {
			uint64_t at = (i * 7 + seed) % nruns * run;
			cr_assert_neq(nruns % 7, 0, "so that each run has its turn");
			cr_assert_eq(cuda_world_restore(w, at, at + run, NULL), 0, "%s", w->err.text);
		}
		char *packed = malloc(w->bytes);
		for (int i = 0; i < WORLD_SPANS; i++)
			span_pack(&w->spans[i], packed + w->spans[i].arena_at, 0, span_bytes(&w->spans[i]));
		cr_assert_arr_eq(packed, w->packed, w->bytes);
		free(packed);
		cuda_world_free(w);
	}
}

Test(cuda_restore, restore_of_a_part_names_the_leaf_and_looks_at_no_other)
{
	struct cuda_world *w = cuda_world_make(9);
	cuda_world_expect(w, 7);
	for (uint64_t leaf = 0; leaf < w->nleaves; leaf++) {
		uint64_t bad_leaf = 0;
		w->want[leaf] ^= 1;
		cr_assert_eq(cuda_world_restore(w, 0, leaf, NULL), 0);
		cr_assert_eq(cuda_world_restore(w, leaf + 1, w->nleaves, NULL), 0);
		cr_assert_eq(cuda_world_restore(w, leaf, leaf + 1, &bad_leaf), -EBADMSG);
		cr_assert_eq(bad_leaf, leaf);
		w->want[leaf] ^= 1;
	}
	cuda_world_free(w);
}

/* A neighbour's arena, or a slot that is not pinned yet: the device itself reads pinned memory alone. */
Test(cuda_restore, memory_that_is_not_pinned_goes_through_memory_that_is)
{
	enum { BIG = (16 << 20) / 8 * 21, ROWS = 9000 };
	struct cuda_world *w = cuda_world_make(31);
	char *base = calloc(1, BIG + ROWS * 24), *memory = malloc(BIG), *rows = calloc(ROWS, 64);
	struct span spans[] = {
		{.memory = rows, .row_bytes = 24, .ndim = 1, .count = {ROWS}, .stride = {64}, .arena_at = BIG},
		{.memory = memory, .row_bytes = BIG, .first_leaf = leaf_count(ROWS * 24)}};
	uint64_t *leaves = malloc((leaf_count(BIG) + leaf_count(ROWS * 24)) * 8);
	for (uint64_t i = 0; i < BIG + ROWS * 24; i += 509)
		base[i] = (char)(i / 509 + 1);
	digest_leaves(base + BIG, ROWS * 24, leaves);
	digest_leaves(base, BIG, leaves + spans[1].first_leaf);
	for (int pinned = 0; pinned < 2; pinned++) {
		uint64_t before = cuda_fake_pageable(w->fake), live = cuda_fake_live(w->fake);
		memset(memory, 0, BIG);
		if (pinned)
			cr_assert_eq(ops->arena_attach(w->dev, base, BIG + ROWS * 24, &w->err), 0, "%s", w->err.text);
		cr_assert_eq(ops->restore(w->dev, base, spans, 2, leaves, w->stream, NULL, &w->err), 0, "%s",
			     w->err.text);
		cr_assert(!memcmp(memory, base, BIG));
		for (int i = 0; i < ROWS; i++)
			cr_assert(!memcmp(rows + 64 * i, base + BIG + 24 * i, 24));
		cr_assert_lt(cuda_fake_pageable(w->fake) - before, 4096, "more than the table of spans");
		cr_assert(!pinned || cuda_fake_live(w->fake) == live + 1, "what it needs is there already");
		if (pinned)
			ops->arena_detach(w->dev, base);
	}
	cuda_world_free(w);
	free(leaves);
	free(rows);
	free(memory);
	free(base);
}

/* ---- in parts, without a wait ------------------------------------------------------------------------------------ */

static int put_leaves(struct cuda_world *w, uint64_t from, uint64_t to, const void *origin, struct restored_bad *bad)
{
	struct span parts[WORLD_SPANS];
	size_t n = 0;
	for (int i = 0; i < WORLD_SPANS; i++) {
		const struct span *span = &w->spans[i];
		uint64_t bytes = span_bytes(span), end = span->first_leaf + leaf_count(bytes);
		uint64_t first = from > span->first_leaf ? from : span->first_leaf, last = to < end ? to : end;
		if (first >= last)
			continue;
		uint64_t at = (first - span->first_leaf) * LEAF_SIZE, stop = (last - span->first_leaf) * LEAF_SIZE;
		parts[n++] = span_part(span, at, (stop < bytes ? stop : bytes) - at);
	}
	return ops->restore_put(w->dev, w->packed, parts, n, w->want, w->stream, origin, bad, &w->err);
}

Test(cuda_restore, parts_follow_each_other_without_a_wait_and_are_there_at_the_end)
{
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct cuda_world *w = cuda_world_make(seed);
		struct restored_bad bad;
		cuda_world_expect(w, 7);
		cuda_world_kernel(w, 8);
		cuda_fake_hold(w->fake, true);
		for (uint64_t leaf = 0; leaf < 3; leaf++)
			cr_assert_eq(put_leaves(w, leaf, leaf + 1, w, &bad), 0, "%s", w->err.text);
		cr_assert_gt(cuda_fake_pending(w->fake), 0, "the device has not even begun");
		cuda_fake_hold(w->fake, false);
		for (uint64_t leaf = 3; leaf < w->nleaves; leaf++)
			cr_assert_eq(put_leaves(w, leaf, leaf + 1, w, &bad), 0, "%s", w->err.text);
		cr_assert_eq(ops->restore_end(w->dev, &bad, &w->err), 0, "%s", w->err.text);
		char *packed = malloc(w->bytes);
		for (int i = 0; i < WORLD_SPANS; i++)
			span_pack(&w->spans[i], packed + w->spans[i].arena_at, 0, span_bytes(&w->spans[i]));
		cr_assert_arr_eq(packed, w->packed, w->bytes);
		free(packed);
		cuda_world_free(w);
	}
}

Test(cuda_restore, damage_in_a_part_is_told_with_the_name_of_the_part)
{
	struct cuda_world *w = cuda_world_make(9);
	cuda_world_expect(w, 7);
	for (uint64_t damaged = 0; damaged < w->nleaves; damaged++) {
		int names[WORLD_LEAVES], rc = 0;
		struct restored_bad bad = {0};
		w->want[damaged] ^= 1;
		for (uint64_t leaf = 0; leaf < w->nleaves && !rc; leaf++)
			rc = put_leaves(w, leaf, leaf + 1, &names[leaf], &bad);
		rc = rc ? rc : ops->restore_end(w->dev, &bad, &w->err);
		cr_assert_eq(rc, -EBADMSG);
		cr_assert_eq(bad.leaf, damaged);
		cr_assert_eq(bad.origin, &names[damaged]);
		cr_assert_eq(ops->restore_end(w->dev, &bad, &w->err), 0, "nothing is under way any more");
		w->want[damaged] ^= 1;
	}
	cuda_world_free(w);
}

Test(cuda_restore, a_device_is_closed_with_parts_under_way)
{
	struct cuda_world *w = cuda_world_make(3);
	struct restored_bad bad;
	cuda_world_expect(w, 7);
	cr_assert_eq(put_leaves(w, 0, w->nleaves, w, &bad), 0, "%s", w->err.text);
	cuda_world_free(w);
}

static int (*pin_really)(struct cuda_rt *rt, void *base, size_t size);
static void *pinned[8];
static unsigned npinned;

static int note_pinned(struct cuda_rt *rt, void *base, size_t size)
{
	cr_assert_lt(npinned, 8u);
	pinned[npinned++] = base;
	return pin_really(rt, base, size);
}

/* Else a page that the parent writes to after a fork may become another than the one that the GPU reads. */
Test(cuda_restore, what_it_pins_for_a_restore_is_not_in_a_child)
{
	struct cuda_world *w = cuda_world_make(1);
	struct cuda_rt *rt = cuda_fake_rt(w->fake);
	pin_really = rt->host_register;
	rt->host_register = note_pinned;
	cuda_world_expect(w, 7);
	cr_assert_eq(cuda_world_restore(w, 0, w->nleaves, NULL), 0, "%s", w->err.text);
	cr_assert_eq(npinned, 2, "the digests, and copies of what is not pinned");
	unsigned char there;
	for (unsigned i = 0; i < npinned; i++)
		cr_assert_eq(mincore(pinned[i], 1, &there), 0);
	pid_t pid = fork();
	if (!pid)
		_exit(!mincore(pinned[0], 1, &there) + !mincore(pinned[1], 1, &there));
	int status;
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d are there", WEXITSTATUS(status));
	cuda_world_free(w);
}
