/* The CUDA device over the fake runtime: what a save and a restore must hold, whatever the order of events. */
#include "cuda_world.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "format/tensor/digest.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

enum { SEEDS = 150 };

static const struct device_ops *const ops = &device_cuda_ops;

/* A training step with a save: the state is made by work that is still in the stream at the launch, and changed by the
 * optimiser right behind the fence. All of it is submitted while the GPU stands still, so that the seed decides. */
static void save_and_step(struct cuda_world *w, bool fenced)
{
	cuda_fake_hold(w->fake, true);
	cuda_world_kernel(w, 1);
	cr_assert_eq(cuda_world_launch(w), 0, "%s", w->err.text);
	if (fenced)
		cr_assert_eq(cuda_world_fence(w), 0, "%s", w->err.text);
	cuda_world_kernel(w, 2);
	cuda_fake_hold(w->fake, false);
	cuda_fake_settle(w->fake);
	cuda_world_expect(w, 1);
}

Test(device_cuda, a_capture_is_the_state_between_launch_and_fence)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct cuda_world *w = cuda_world_make(seed);
		save_and_step(w, true);
		cr_assert(cuda_world_matches(w), "seed %lu", seed);
		cr_assert_arr_eq(w->leaves, w->want, w->nleaves * 8, "seed %lu", seed);
		cr_assert_eq(atomic_load(w->progress), w->bytes);
		cr_assert_eq(atomic_load(w->done), 1u);
		cuda_world_free(w);
	}
}

Test(device_cuda, so_it_is_with_the_kernels_themselves)
{
	for (uint64_t seed = 0; seed < 5; seed++) {
		struct cuda_world *w = cuda_world_make(seed);
		cuda_fake_emulate(w->fake);
		save_and_step(w, true);
		cr_assert(cuda_world_matches(w), "seed %lu", seed);
		cr_assert_arr_eq(w->leaves, w->want, w->nleaves * 8, "seed %lu", seed);
		cuda_world_free(w);
	}
}

/* The first `copied` spans are copied, the others only digested. */
static struct cuda_world *make_witnessed(uint64_t seed, unsigned copied)
{
	struct cuda_world *w = cuda_world_make(seed);
	struct span spans[WORLD_SPANS];
	memcpy(spans, w->spans, sizeof(spans));
	ops->plan_free(w->plan);
	for (unsigned i = copied; i < WORLD_SPANS; i++)
		spans[i].group = SPAN_WITNESS;
	cr_assert_eq(ops->plan_new(w->dev, w->data, spans, WORLD_SPANS, WORLD_GRANULE, 0, &w->plan, &w->err), 0, "%s",
		     w->err.text);
	return w;
}

Test(device_cuda, witnesses_are_digested_with_the_rest_and_not_copied)
{
	for (uint64_t seed = 0; seed < 30; seed++) {
		unsigned copied = seed % 3 == 2 ? 0 : 2; /* also none */
		struct cuda_world *w = make_witnessed(seed, copied);
		uint64_t bytes = 0;
		save_and_step(w, true);
		cr_assert_arr_eq(w->leaves, w->want, w->nleaves * 8, "seed %lu", seed);
		cr_assert_eq(atomic_load(w->done), 1u);
		for (unsigned i = 0; i < WORLD_SPANS; i++) {
			const struct span *span = &w->spans[i];
			bool there = !memcmp(w->data + span->arena_at, w->packed + span->arena_at, span_bytes(span));
			cr_assert_eq(there, i < copied, "seed %lu, span %u", seed, i);
			bytes += i < copied ? span_bytes(span) : 0;
		}
		cr_assert_eq(atomic_load(w->progress), bytes);
		cuda_world_free(w);
	}
}

Test(device_cuda, a_mutation_without_a_fence_shows_in_the_digests)
{
	int torn = 0;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct cuda_world *w = cuda_world_make(seed);
		save_and_step(w, false);
		cr_assert_arr_eq(w->leaves, w->want, w->nleaves * 8, "seed %lu", seed);
		cr_assert_eq(cuda_world_digests_match(w), cuda_world_matches(w), "seed %lu", seed);
		torn += !cuda_world_matches(w);
		cuda_world_free(w);
	}
	cr_assert_gt(torn, 0);
}

Test(device_cuda, so_it_is_without_batches)
{
	for (uint64_t seed = 0; seed < 60; seed++) {
		struct cuda_world *w = cuda_world_memory(seed);
		cuda_fake_rt(w->fake)->copy_batch = NULL;
		cuda_world_up(w, seed % 2 ? PLAN_STAGED : 0);
		save_and_step(w, true);
		cr_assert(cuda_world_matches(w), "seed %lu", seed);
		cr_assert_eq(atomic_load(w->progress), w->bytes);
		cuda_world_free(w);
	}
}

Test(device_cuda, a_device_that_cannot_write_from_a_stream_tells_by_a_kernel)
{
	for (unsigned flags = 0; flags <= PLAN_STAGED; flags++) {
		struct cuda_world *w = cuda_world_memory(28);
		cuda_fake_no_writes(w->fake);
		cuda_world_up(w, flags);
		save_and_step(w, true);
		cr_assert(cuda_world_matches(w));
		cr_assert_eq(atomic_load(w->progress), w->bytes);
		cr_assert_eq(atomic_load(w->done), 1u);
		cuda_world_free(w);
	}
}

/* ---- groups ---- */

/* An optimiser that updates group by group, each behind its own fence. `careless`: one group is not fenced. */
static void step_by_groups(struct cuda_world *w, uint32_t careless)
{
	static const uint32_t groups[] = {3, 0, 5};
	cuda_fake_hold(w->fake, true);
	cuda_world_kernel(w, 1);
	cr_assert_eq(cuda_world_launch(w), 0, "%s", w->err.text);
	for (int i = 0; i < 3; i++) {
		if (groups[i] != careless)
			cr_assert_eq(ops->plan_fence(w->plan, groups[i], w->stream, 0, NULL, &w->err), 0);
		cuda_world_kernel_on(w, groups[i], 77);
	}
	cuda_fake_hold(w->fake, false);
	cuda_fake_settle(w->fake);
	cuda_world_expect(w, 1);
}

Test(device_cuda, groups_are_fenced_one_by_one)
{
	int early = 0;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct cuda_world *w = cuda_world_make(seed);
		step_by_groups(w, FENCE_ALL);
		cr_assert(cuda_world_matches(w), "seed %lu", seed);
		cr_assert_arr_eq(w->leaves, w->want, w->nleaves * 8);
		cuda_world_free(w);
		/* The first group is updated while the others are still being copied. */
		w = cuda_world_make(seed);
		cuda_fake_hold(w->fake, true);
		cr_assert_eq(cuda_world_launch(w), 0);
		cr_assert_eq(ops->plan_fence(w->plan, 3, w->stream, 0, NULL, &w->err), 0);
		cuda_world_kernel_on(w, 3, 77);
		cuda_fake_hold(w->fake, false);
		cuda_fake_settle(w->fake);
		early += w->painted_at < w->bytes;
		cuda_world_free(w);
	}
	cr_assert_gt(early, 0);
}

Test(device_cuda, a_group_without_its_fence_shows_in_the_digests)
{
	int torn = 0;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct cuda_world *w = cuda_world_make(seed);
		step_by_groups(w, 3);
		cr_assert_eq(cuda_world_digests_match(w), cuda_world_matches(w), "seed %lu", seed);
		torn += !cuda_world_matches(w);
		cuda_world_free(w);
	}
	cr_assert_gt(torn, 0);
}

Test(device_cuda, a_group_in_two_places_is_refused)
{
	struct cuda_world *w = cuda_world_make(22);
	struct plan *plan;
	w->spans[3].group = 3;
	cr_assert_eq(ops->plan_new(w->dev, w->data, w->spans, WORLD_SPANS, WORLD_GRANULE, 0, &plan, &w->err), -EINVAL);
	cr_assert(strstr(w->err.text, "group 3"), "%s", w->err.text);
	w->spans[3].group = PLAN_GROUPS_MAX;
	cr_assert_eq(ops->plan_new(w->dev, w->data, w->spans, WORLD_SPANS, WORLD_GRANULE, 0, &plan, &w->err), -EINVAL);
	cuda_world_free(w);
}

/* ---- staging ---- */

Test(device_cuda, a_staged_capture_is_the_same_and_lets_the_training_go_on_sooner)
{
	int early[2] = {0, 0};
	for (uint64_t seed = 0; seed < SEEDS; seed++)
		for (unsigned flags = 0; flags <= PLAN_STAGED; flags++) {
			struct cuda_world *w = cuda_world_make_with(seed, flags);
			save_and_step(w, true);
			cr_assert(cuda_world_matches(w), "seed %lu", seed);
			cr_assert_arr_eq(w->leaves, w->want, w->nleaves * 8);
			cr_assert_eq(atomic_load(w->progress), w->bytes);
			cr_assert_eq(atomic_load(w->done), 1u);
			early[flags] += w->painted_at < w->bytes;
			cuda_world_free(w);
		}
	cr_assert_eq(early[0], 0);
	cr_assert_gt(early[PLAN_STAGED], SEEDS / 10, "%d of %d", early[PLAN_STAGED], SEEDS);
}

Test(device_cuda, staged_plans_take_turns_in_one_buffer)
{
	struct cuda_world *w = cuda_world_make_with(23, PLAN_STAGED);
	struct plan *second;
	char *other = aligned_alloc(4096, align_up(w->arena_bytes, 4096));
	struct capture_target target = {.progress = (void *)other, .done = (void *)(other + 64)};
	memset(other, 0, 4096);
	cr_assert_eq(ops->arena_attach(w->dev, other, w->arena_bytes, &w->err), 0);
	cuda_fake_spare(w->fake, 4096); /* a second buffer would not be given */
	cr_assert_eq(ops->plan_new(w->dev, other + 4096, w->spans, WORLD_SPANS, WORLD_GRANULE, PLAN_STAGED, &second,
				   &w->err),
		     0, "%s", w->err.text);
	cuda_fake_hold(w->fake, true);
	for (uint32_t fill = 1; fill <= 2; fill++) {
		cuda_world_kernel(w, fill);
		cr_assert_eq(
			fill == 1 ? cuda_world_launch(w) : ops->plan_launch(second, w->stream, &target, 0, &w->err), 0);
		cr_assert_eq(ops->plan_fence(fill == 1 ? w->plan : second, FENCE_ALL, w->stream, 0, NULL, &w->err), 0);
	}
	cuda_world_kernel(w, 3);
	cuda_fake_hold(w->fake, false);
	cuda_fake_settle(w->fake);
	cuda_world_expect(w, 1);
	cr_assert(cuda_world_matches(w));
	cuda_world_expect(w, 2);
	cr_assert(!memcmp(other + 4096, w->packed, w->bytes));
	ops->plan_free(second);
	ops->arena_detach(w->dev, other);
	cuda_world_free(w);
	free(other);
}

Test(device_cuda, staging_is_refused_where_there_is_no_memory_to_spare)
{
	struct cuda_world *w = cuda_world_make(24);
	struct plan *plan;
	cuda_fake_spare(w->fake, w->bytes - 1);
	cr_assert_eq(ops->plan_new(w->dev, w->data, w->spans, WORLD_SPANS, WORLD_GRANULE, PLAN_STAGED, &plan, &w->err),
		     -ENOMEM);
	cr_assert(strstr(w->err.text, "to stage captures in"), "%s", w->err.text);
	save_and_step(w, true);
	cr_assert(cuda_world_matches(w));
	cuda_world_free(w);
}

static int forget_to_wait(struct cuda_rt *rt, struct rt_stream *stream, struct rt_event *event)
{
	(void)rt;
	(void)stream;
	(void)event;
	return 0;
}

/* The test of the test: were the waits missing, the fake would show it. */
Test(device_cuda, the_fake_catches_a_missing_wait)
{
	int wrong = 0;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct cuda_world *w = cuda_world_make(seed);
		cuda_fake_rt(w->fake)->stream_wait = forget_to_wait;
		save_and_step(w, true);
		wrong += !cuda_world_matches(w);
		cuda_world_free(w);
	}
	cr_assert_gt(wrong, SEEDS / 4);
}

static void check_progress(void *arg)
{
	struct cuda_world *w = arg;
	uint64_t told = atomic_load(w->progress);
	if (told < w->seen || told - w->seen > WORLD_GRANULE)
		abort();
	w->seen = told;
	if (told > w->bytes || memcmp(w->data, w->packed, told))
		abort();
	if (atomic_load(w->done) && (told != w->bytes || memcmp(w->leaves, w->want, w->nleaves * 8)))
		abort();
}

Test(device_cuda, progress_comes_by_granules_and_never_ahead_of_the_bytes)
{
	for (uint64_t seed = 0; seed < 40; seed++) {
		struct cuda_world *w = cuda_world_make(seed);
		cuda_world_expect(w, 1);
		cuda_fake_watch(w->fake, check_progress, w);
		save_and_step(w, true);
		cr_assert_eq(atomic_load(w->done), 1u);
		cuda_fake_watch(w->fake, NULL, NULL);
		cuda_world_free(w);
	}
}

Test(device_cuda, a_plan_runs_one_launch_at_a_time_and_many_in_turn)
{
	struct cuda_world *w = cuda_world_make(3);
	cuda_fake_hold(w->fake, true);
	cr_assert_eq(cuda_world_launch(w), 0);
	cr_assert_eq(cuda_world_launch(w), -EBUSY);
	cuda_fake_hold(w->fake, false);
	cuda_fake_settle(w->fake);
	for (uint32_t round = 1; round < 6; round++) {
		cuda_world_kernel(w, round);
		cr_assert_eq(cuda_world_launch(w), 0, "%s", w->err.text);
		cr_assert_eq(cuda_world_fence(w), 0);
		cuda_world_kernel(w, 99);
		cuda_fake_settle(w->fake);
		cuda_world_expect(w, round);
		cr_assert(cuda_world_matches(w));
	}
	cuda_world_free(w);
}

Test(device_cuda, a_second_launch_is_a_handful_of_calls)
{
	struct cuda_world *w = cuda_world_make(4);
	cr_assert_eq(cuda_world_launch(w), 0);
	cuda_fake_settle(w->fake);
	uint64_t before = cuda_fake_calls(w->fake);
	cr_assert_eq(cuda_world_launch(w), 0);
	/* Two for each step of the counter, of which each group ends one. */
	uint64_t steps = w->bytes / WORLD_GRANULE + 3;
	cr_assert_leq(cuda_fake_calls(w->fake) - before, 20u + 2 * 3 + 2 * steps);
	cuda_world_free(w);
}

Test(device_cuda, a_plan_follows_its_counter_to_another_place)
{
	struct cuda_world *w = cuda_world_make(5);
	cr_assert_eq(cuda_world_launch(w), 0);
	cuda_fake_settle(w->fake);
	atomic_store(w->progress, 0);
	w->progress = w->target.progress = (void *)(w->arena + 8);
	cr_assert_eq(cuda_world_launch(w), 0);
	cuda_fake_settle(w->fake);
	cr_assert_eq(atomic_load(w->progress), w->bytes);
	cr_assert_eq(*(uint64_t *)(void *)w->arena, 0u);
	cuda_world_free(w);
}

Test(device_cuda, a_runtime_without_a_digest_kernel_says_so)
{
	struct cuda_world *w = cuda_world_make(6);
	cr_assert(ops->digests(w->dev));
	cuda_fake_rt(w->fake)->digest = NULL;
	cr_assert_not(ops->digests(w->dev));
	cr_assert_eq(cuda_world_launch(w), -EOPNOTSUPP);
	w->target.leaves = NULL;
	cr_assert_eq(ops->plan_launch(w->plan, w->stream, &w->target, CAPTURE_STRICT, &w->err), -EOPNOTSUPP);
	save_and_step(w, true);
	cr_assert(cuda_world_matches(w));
	cr_assert_eq(atomic_load(w->done), 1u);
	for (uint64_t i = 0; i < w->nleaves; i++)
		cr_assert_eq(w->leaves[i], 0u);
	cuda_world_free(w);
}

Test(device_cuda, strict_needs_the_digests_of_the_launch)
{
	struct cuda_world *w = cuda_world_make(7);
	cr_assert_eq(ops->plan_launch(w->plan, w->stream, &w->target, CAPTURE_STRICT, &w->err), 0);
	cuda_fake_settle(w->fake);
	w->target.leaves = NULL;
	cr_assert_eq(ops->plan_launch(w->plan, w->stream, &w->target, CAPTURE_STRICT, &w->err), -EINVAL);
	cuda_world_free(w);
}

Test(device_cuda, too_many_copies_are_refused)
{
	struct cuda_world *w = cuda_world_make(12);
	struct plan *plan;
	cuda_fake_rt(w->fake)->pack = NULL; /* else a kernel packs them */
	/* Never touched: backwards rows need a call each. */
	struct span rows = {.memory = w->state, .row_bytes = 2, .ndim = 1, .count = {1 << 20}, .stride = {-4}};
	cr_assert_eq(ops->plan_new(w->dev, w->data, &rows, 1, WORLD_GRANULE, 0, &plan, &w->err), -E2BIG);
	cr_assert(strstr(w->err.text, "span 0"), "%s", w->err.text);
	cuda_world_free(w);
}
