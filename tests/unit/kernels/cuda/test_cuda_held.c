/* The CUDA device over the fake runtime, capturing into an arena that holds an earlier capture: what is the same is not copied, what is not
 * always is, whatever was guessed and whatever the order of events. */
#include "cuda_world.h"

#include "base/bytes.h"
#include "format/tensor/digest.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

enum { SEEDS = 100, MARK = 0x11, ALL = 1 << 0 | 1 << 3 | 1 << 5 /* groups */ };

static const struct device_ops *const ops = &device_cuda_ops;

/* The digests of a capture that was made meanwhile. */
static uint64_t newest[WORLD_LEAVES];

static void save(struct cuda_world *w)
{
	cr_assert_eq(cuda_world_launch(w), 0, "%s", w->err.text);
	cr_assert_eq(cuda_world_fence(w), 0, "%s", w->err.text);
}

/* The arena holds the pattern 1, and so did the newest capture. */
static struct cuda_world *make_held(uint64_t seed, unsigned flags)
{
	struct cuda_world *w = cuda_world_make_with(seed, flags);
	cuda_world_kernel(w, 1);
	save(w);
	cuda_fake_settle(w->fake);
	cuda_world_expect(w, 1);
	cr_assert(cuda_world_matches(w));
	memcpy(newest, w->leaves, sizeof(newest));
	w->target.held = true;
	w->target.newest = newest;
	return w;
}

/* What the state is now, as all of it must be captured. */
static void expect_state(struct cuda_world *w)
{
	for (int i = 0; i < WORLD_SPANS; i++) {
		char *packed = w->packed + w->spans[i].arena_at;
		span_pack(&w->spans[i], packed, 0, span_bytes(&w->spans[i]));
		digest_leaves(packed, span_bytes(&w->spans[i]), w->want + w->spans[i].first_leaf);
	}
}

static void expect_complete(struct cuda_world *w)
{
	cr_assert_arr_eq(w->leaves, w->want, w->nleaves * 8);
	cr_assert_eq(atomic_load(w->progress), w->bytes);
	cr_assert_eq(atomic_load(w->done), 1u);
}

/* Bit g: the group was copied, all of it. What was not still has the mark. */
static unsigned copied_groups(const struct cuda_world *w)
{
	unsigned copied = 0;
	for (int i = 0; i < WORLD_SPANS; i++) {
		const char *at = w->data + w->spans[i].arena_at;
		uint64_t bytes = span_bytes(&w->spans[i]);
		bool marked = at[0] == MARK && !memcmp(at, at + 1, bytes - 1);
		cr_assert(marked || !memcmp(at, w->packed + w->spans[i].arena_at, bytes));
		copied |= (unsigned)!marked << w->spans[i].group;
	}
	return copied;
}

/* Captures into an arena that is marked all over: which groups are copied. */
static unsigned capture_marked(struct cuda_world *w)
{
	memset(w->data, MARK, w->bytes);
	save(w);
	cuda_fake_settle(w->fake);
	expect_state(w);
	expect_complete(w);
	return copied_groups(w);
}

Test(cuda_held, what_has_not_changed_is_digested_and_not_copied)
{
	for (uint64_t seed = 0; seed < 40; seed++) {
		struct cuda_world *w = make_held(seed, seed % 2 ? PLAN_STAGED : 0);
		cr_assert_eq(capture_marked(w), 0u, "seed %lu", seed);
		cuda_world_free(w);
	}
}

Test(cuda_held, of_what_has_changed_the_leaves_are_copied)
{
	for (uint64_t seed = 0; seed < 40; seed++) {
		struct cuda_world *w = make_held(seed, seed % 2 ? PLAN_STAGED : 0);
		if (seed % 3 == 0)
			cuda_fake_emulate(w->fake);
		cuda_world_kernel_on(w, 0, 7);
		cuda_world_kernel_on(w, 5, 7);
		cr_assert_eq(capture_marked(w), 1u << 0 | 1u << 5, "seed %lu", seed);
		/* One byte of a large group: a leaf of it. */
		memcpy(newest, w->leaves, sizeof(newest));
		cuda_fake_settle(w->fake);
		((char *)w->spans[0].memory)[3 * LEAF_SIZE + 1] ^= 1;
		memset(w->data, MARK, w->bytes);
		save(w);
		cuda_fake_settle(w->fake);
		expect_state(w);
		expect_complete(w);
		for (uint64_t i = 0; i < w->bytes; i++) {
			char due = i / LEAF_SIZE == 3 ? w->packed[i] : MARK;
			cr_assert_eq(w->data[i], due, "seed %lu: byte %lu", seed, i);
		}
		cuda_world_free(w);
	}
}

Test(cuda_held, a_group_that_seems_to_change_is_copied_as_ever)
{
	struct cuda_world *w = make_held(1, 0);
	for (uint64_t i = 0; i < w->nleaves; i++)
		newest[i] ^= 1;
	cr_assert_eq(capture_marked(w), (unsigned)ALL);
	memcpy(newest, w->leaves, sizeof(newest));
	cr_assert_eq(capture_marked(w), 0u);
	w->target.newest = NULL;
	cr_assert_eq(capture_marked(w), (unsigned)ALL, "nothing to guess by");
	w->target.newest = newest;
	w->target.held = false;
	cr_assert_eq(capture_marked(w), (unsigned)ALL, "the arena holds something else");
	/* A small group is not worth having the others wait for the digests. */
	w->target.held = true;
	for (uint64_t i = 0; i < w->spans[3].first_leaf; i++)
		newest[i] ^= 1;
	cr_assert_eq(capture_marked(w), (unsigned)ALL);
	cuda_world_free(w);
}

/* All of it changes just before the launch, and again behind the fence; or behind the fences of the groups. */
static void thaw(struct cuda_world *w, bool fenced, bool by_groups)
{
	static const uint32_t groups[] = {3, 0, 5};
	cuda_fake_hold(w->fake, true);
	cuda_world_kernel(w, 2);
	cr_assert_eq(cuda_world_launch(w), 0, "%s", w->err.text);
	for (int i = 0; by_groups && i < 3; i++) {
		cr_assert_eq(ops->plan_fence(w->plan, groups[i], w->stream, 0, NULL, &w->err), 0);
		cuda_world_kernel_on(w, groups[i], 77);
	}
	if (fenced && !by_groups)
		cr_assert_eq(cuda_world_fence(w), 0);
	cuda_world_kernel(w, 3);
	cuda_fake_hold(w->fake, false);
	cuda_fake_settle(w->fake);
	cuda_world_expect(w, 2);
}

Test(cuda_held, what_thaws_costs_no_save)
{
	for (uint64_t seed = 0; seed < 4 * SEEDS; seed++) {
		struct cuda_world *w = make_held(seed, seed % 2 ? PLAN_STAGED : 0);
		thaw(w, true, seed % 8 / 4);
		cr_assert(cuda_world_matches(w), "seed %lu", seed);
		expect_complete(w);
		cuda_world_free(w);
	}
}

Test(cuda_held, without_a_fence_what_changed_before_is_torn_and_found)
{
	int torn = 0;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct cuda_world *w = make_held(seed, 0);
		thaw(w, false, false);
		cr_assert_arr_eq(w->leaves, w->want, w->nleaves * 8);
		cr_assert_eq(cuda_world_digests_match(w), cuda_world_matches(w), "seed %lu", seed);
		torn += !cuda_world_matches(w);
		cuda_world_free(w);
	}
	cr_assert_gt(torn, 0);
}

/* It is in the arena already. */
Test(cuda_held, without_a_fence_what_had_not_changed_before_is_whole)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct cuda_world *w = make_held(seed, seed % 2 ? PLAN_STAGED : 0);
		cuda_fake_hold(w->fake, true);
		cr_assert_eq(cuda_world_launch(w), 0);
		cuda_world_kernel(w, 2);
		cuda_fake_hold(w->fake, false);
		cuda_fake_settle(w->fake);
		cr_assert(cuda_world_matches(w), "seed %lu", seed);
		expect_complete(w);
		cuda_world_free(w);
	}
}

static void check_progress(void *arg)
{
	struct cuda_world *w = arg;
	uint64_t told = atomic_load(w->progress);
	if (told < w->seen || told > w->bytes || memcmp(w->data, w->packed, told))
		abort();
	w->seen = told;
	if (atomic_load(w->done) && (told != w->bytes || memcmp(w->leaves, w->want, w->nleaves * 8)))
		abort();
}

Test(cuda_held, progress_is_never_ahead_of_the_bytes)
{
	for (uint64_t seed = 0; seed < 40; seed++) {
		struct cuda_world *w = make_held(seed, seed % 2 ? PLAN_STAGED : 0);
		/* Group 3, the first in the arena, is copied as ever; the others are held. */
		for (uint64_t i = 0; seed % 8 >= 4 && i < w->spans[2].first_leaf; i++)
			newest[i] ^= 1;
		cuda_fake_hold(w->fake, true);
		cuda_world_kernel(w, 2);
		save(w);
		cuda_world_expect(w, 2);
		cuda_fake_watch(w->fake, check_progress, w);
		cuda_fake_hold(w->fake, false);
		cuda_fake_settle(w->fake);
		cuda_fake_watch(w->fake, NULL, NULL);
		cr_assert_eq(w->seen, w->bytes);
		cuda_world_free(w);
	}
}

/* Round after round some of it changes, and the guess is right or wrong. */
Test(cuda_held, the_arena_always_holds_the_state)
{
	static const uint32_t groups[] = {3, 0, 5, FENCE_ALL};
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct cuda_world *w = make_held(seed, seed % 2 ? PLAN_STAGED : 0);
		uint64_t chance = (seed + 1) * 0x9e3779b97f4a7c15ull;
		for (int round = 0; round < 12; round++, chance = chance * 6364136223846793005ull + 1) {
			uint64_t before[WORLD_LEAVES];
			memcpy(before, w->leaves, sizeof(before));
			if (chance >> 33 & 1)
				cuda_world_kernel_on(w, groups[chance >> 40 & 3], (uint32_t)(chance >> 50));
			w->target.held = chance >> 34 & 3;
			save(w);
			cuda_fake_settle(w->fake);
			expect_state(w);
			cr_assert(cuda_world_matches(w), "seed %lu round %d", seed, round);
			expect_complete(w);
			memcpy(newest, chance >> 36 & 1 ? before : w->leaves, sizeof(newest));
		}
		cuda_world_free(w);
	}
}
