/* The CUDA device over the fake runtime: what a save and a restore must hold, whatever the order of events. */
#include "cuda_world.h"

#include "base/clock.h"
#include "format/digest.h"

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
	cr_assert_leq(cuda_fake_calls(w->fake) - before, 12u);
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

Test(device_cuda, restore_comes_after_the_work_in_the_stream)
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

Test(device_cuda, restore_names_the_leaf_that_arrived_damaged)
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

Test(device_cuda, the_thread_keeps_its_gpu)
{
	struct cuda_world *w = cuda_world_memory(10);
	struct cuda_rt *rt = cuda_fake_rt(w->fake);
	int now = -1;
	cr_assert_eq(device_cuda_open(rt, 1, &w->dev, &w->err), 0, "%s", w->err.text);
	cr_assert_eq(ops->arena_attach(w->dev, w->arena, w->arena_bytes, &w->err), 0);
	cr_assert_eq(ops->plan_new(w->dev, w->data, w->spans, WORLD_SPANS, WORLD_GRANULE, &w->plan, &w->err), 0);
	/* NULL: the default stream of the device's GPU, not of the thread's. */
	cr_assert_eq(cuda_world_launch(w), 0, "%s", w->err.text);
	cr_assert_eq(cuda_world_fence(w), 0, "%s", w->err.text);
	cr_assert_eq(ops->restore(w->dev, w->packed, w->spans, WORLD_SPANS, NULL, NULL, NULL, &w->err), 0);
	cr_assert_eq(rt->current(rt, &now), 0);
	cr_assert_eq(now, 0);
	cuda_world_free(w);
}

Test(device_cuda, a_missing_gpu_is_named)
{
	struct cuda_world *w = cuda_world_memory(11);
	cr_assert_eq(device_cuda_open(cuda_fake_rt(w->fake), FAKE_GPUS, &w->dev, &w->err), -ENODEV);
	cr_assert_str_eq(w->err.text, "there is no GPU 2: the driver shows 2");
	cr_assert_null(w->dev);
	cuda_world_free(w);
}

Test(device_cuda, too_many_copies_are_refused)
{
	struct cuda_world *w = cuda_world_make(12);
	struct plan *plan;
	/* Never touched: backwards rows need a call each. */
	struct span rows = {.memory = w->state, .row_bytes = 2, .ndim = 1, .count = {1 << 20}, .stride = {-4}};
	cr_assert_eq(ops->plan_new(w->dev, w->data, &rows, 1, WORLD_GRANULE, &plan, &w->err), -E2BIG);
	cr_assert(strstr(w->err.text, "span 0"), "%s", w->err.text);
	cuda_world_free(w);
}

/* With a driver the answer is about the ordinal, without one about the driver: both are "no such device". */
Test(device_cuda, the_real_runtime_says_why_there_is_no_gpu)
{
	struct device *dev;
	struct err err = {""};
	if (!device_cuda()) {
		cr_assert_eq(device_cuda_ops.open(0, &dev, &err), -ENODEV);
		cr_assert(strstr(err.text, "without the CUDA toolkit"), "%s", err.text);
		return;
	}
	cr_assert_eq(device_cuda()->open(4096, &dev, &err), -ENODEV);
	cr_assert_null(dev);
	cr_assert_gt(strlen(err.text), 20u);
	cr_log_info("the real runtime says: %s", err.text);
}
