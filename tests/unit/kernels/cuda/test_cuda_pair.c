/* State on two GPUs of one process, over the fake runtime: one arena, one stream of the caller. */
#include "cuda_pair.h"

#include "base/clock.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

enum { SEEDS = 60 };

static const struct device_ops *const ops = &device_cuda_ops;

/* Where the training of the second GPU runs. */
enum way {
	DEFAULT, /* on its default stream */
	ORDERED, /* on another, which the caller's stream waits for, and which waits for that */
	WAYS
};

/* The caller's stream is the first GPU's. All is submitted while the GPUs stand still, so that the seed decides. */
static void save_and_step(struct pair *p, enum way way, bool fenced)
{
	struct rt_stream *caller = p->gpus[0].stream, *other = way == DEFAULT ? NULL : p->gpus[1].stream;
	cuda_fake_hold(p->fake, true);
	pair_kernel(p, 0, caller, 0, FENCE_ALL, 1);
	pair_kernel(p, 1, other, 1, FENCE_ALL, 1);
	if (way == ORDERED)
		pair_order(p, 0, other, caller);
	cr_assert_eq(pair_launch(p, caller), 0, "%s", p->err.text);
	if (fenced)
		cr_assert_eq(pair_fence(p, FENCE_ALL, caller), 0, "%s", p->err.text);
	if (way == ORDERED)
		pair_order(p, 1, caller, other);
	pair_kernel(p, 0, caller, 0, FENCE_ALL, 2);
	pair_kernel(p, 1, other, 1, FENCE_ALL, 2);
	cuda_fake_hold(p->fake, false);
	cuda_fake_settle(p->fake);
}

static void expect_whole(const struct pair *p, int fill)
{
	for (int i = 0; i < 2; i++) {
		cr_assert(pair_holds(p, i, fill), "GPU %d", i);
		cr_assert(pair_digested(p, i, fill), "GPU %d", i);
		cr_assert_eq(atomic_load(p->gpus[i].target.done), 1u);
	}
}

Test(cuda_pair, a_capture_is_the_state_of_both_between_launch_and_fence)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++)
		for (int way = 0; way < WAYS; way++)
			for (unsigned flags = 0; flags <= PLAN_STAGED; flags++) {
				struct pair *p = pair_make(seed, flags);
				save_and_step(p, way, true);
				expect_whole(p, 1);
				pair_free(p, false);
			}
}

/* The test of the test, and of the daemon's eye: what is torn on either GPU shows in its digests. */
Test(cuda_pair, a_mutation_without_a_fence_shows_in_the_digests_of_its_gpu)
{
	int torn[2] = {0, 0};
	for (uint64_t seed = 0; seed < 2 * SEEDS; seed++) {
		struct pair *p = pair_make(seed, 0);
		save_and_step(p, DEFAULT, false);
		for (int i = 0; i < 2; i++) {
			cr_assert(pair_digested(p, i, 1), "seed %lu, GPU %d", seed, i);
			cr_assert_eq(pair_digests_match(p, i), pair_holds(p, i, 1), "seed %lu, GPU %d", seed, i);
			torn[i] += !pair_holds(p, i, 1);
		}
		pair_free(p, false);
	}
	cr_assert_gt(torn[0], 0);
	cr_assert_gt(torn[1], 0);
}

Test(cuda_pair, groups_are_fenced_on_both)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct pair *p = pair_make(seed, 0);
		struct rt_stream *caller = p->gpus[0].stream;
		cuda_fake_hold(p->fake, true);
		for (int i = 0; i < 2; i++)
			pair_kernel(p, i, i ? NULL : caller, i, FENCE_ALL, 1);
		cr_assert_eq(pair_launch(p, caller), 0);
		for (uint32_t group = 0; group < 2; group++) {
			cr_assert_eq(pair_fence(p, group, caller), 0);
			pair_kernel(p, 0, caller, 0, group, 2);
			pair_kernel(p, 1, NULL, 1, group, 2);
		}
		cuda_fake_hold(p->fake, false);
		cuda_fake_settle(p->fake);
		expect_whole(p, 1);
		pair_free(p, false);
	}
}

/* The caller's stream writes to the other GPU's memory, over the bus. */
Test(cuda_pair, the_callers_stream_waits_for_both)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct pair *p = pair_make(seed, 0);
		struct rt_stream *caller = p->gpus[0].stream;
		cuda_fake_hold(p->fake, true);
		for (int i = 0; i < 2; i++)
			pair_kernel(p, 0, caller, i, FENCE_ALL, 1);
		cr_assert_eq(pair_launch(p, caller), 0);
		cr_assert_eq(pair_fence(p, FENCE_ALL, caller), 0);
		for (int i = 0; i < 2; i++)
			pair_kernel(p, 0, caller, i, FENCE_ALL, 2);
		cuda_fake_hold(p->fake, false);
		cuda_fake_settle(p->fake);
		expect_whole(p, 1);
		pair_free(p, false);
	}
}

Test(cuda_pair, no_stream_is_the_default_stream_of_each)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct pair *p = pair_make(seed, 0);
		cuda_fake_hold(p->fake, true);
		for (int fill = 1; fill <= 2; fill++) {
			for (int i = 0; i < 2; i++)
				pair_kernel(p, i, NULL, i, FENCE_ALL, fill);
			if (fill == 1) {
				cr_assert_eq(pair_launch(p, NULL), 0);
				cr_assert_eq(pair_fence(p, FENCE_ALL, NULL), 0);
			}
		}
		cuda_fake_hold(p->fake, false);
		cuda_fake_settle(p->fake);
		expect_whole(p, 1);
		pair_free(p, false);
	}
}

Test(cuda_pair, both_are_restored_behind_the_callers_stream)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct pair *p = pair_make(seed, 0);
		save_and_step(p, DEFAULT, true);
		for (int i = 0; i < 2; i++)
			pair_kernel(p, 0, p->gpus[0].stream, i, FENCE_ALL, 3);
		for (int i = 0; i < 2; i++)
			cr_assert_eq(ops->restore(p->gpus[i].dev, p->arena + PAIR_HEAD, p->gpus[i].spans, PAIR_SPANS,
						  p->gpus[i].target.leaves, p->gpus[0].stream, NULL, &p->err),
				     0, "%s", p->err.text);
		cuda_fake_settle(p->fake);
		for (int i = 0; i < 2; i++)
			for (size_t k = 0; k < p->gpus[i].spans[0].row_bytes; k++)
				cr_assert_eq(p->gpus[i].state[8 + k], 1);
		pair_free(p, false);
	}
}

Test(cuda_pair, one_arena_is_pinned_once_and_let_go_by_the_last)
{
	for (int first = 0; first < 2; first++) {
		struct pair *p = pair_make(3, 0);
		cr_assert_eq(pair_launch(p, NULL), 0);
		cuda_fake_settle(p->fake);
		uint64_t live = cuda_fake_live(p->fake);
		cr_assert_eq(ops->arena_attach(p->gpus[0].dev, p->arena, p->arena_bytes - 1, &p->err), -EINVAL);
		cuda_fake_hold(p->fake, true);
		cr_assert_eq(pair_launch(p, p->gpus[0].stream), 0);
		cuda_fake_hold(p->fake, false);
		ops->arena_detach(p->gpus[first].dev, p->arena);
		cr_assert_eq(cuda_fake_live(p->fake), live); /* the other still copies into it */
		ops->arena_detach(p->gpus[!first].dev, p->arena);
		cr_assert_eq(cuda_fake_live(p->fake), live - 1);
		for (int i = 0; i < 2; i++)
			cr_assert_eq(ops->arena_attach(p->gpus[i].dev, p->arena, p->arena_bytes, &p->err), 0);
		cr_assert_eq(cuda_fake_live(p->fake), live);
		cr_assert_eq(pair_launch(p, NULL), 0);
		pair_free(p, false);
	}
}

Test(cuda_pair, what_a_gpu_that_hangs_may_touch_stays_pinned)
{
	struct pair *p = pair_make(4, 0);
	cuda_fake_rt(p->fake)->patience = 20 * CLOCK_NS_PER_MS;
	cr_assert_eq(ops->idle(p->gpus[0].dev, 0, &p->err), 0);
	cuda_fake_hold(p->fake, true);
	cr_assert_eq(pair_launch(p, NULL), 0);
	uint64_t live = cuda_fake_live(p->fake);
	cr_assert_eq(ops->idle(p->gpus[0].dev, clock_deadline(CLOCK_NS_PER_MS), &p->err), -ETIMEDOUT);
	ops->arena_detach(p->gpus[0].dev, p->arena);
	ops->arena_detach(p->gpus[1].dev, p->arena);
	cr_assert_eq(cuda_fake_live(p->fake), live);
	cuda_fake_hold(p->fake, false);
	cr_assert_eq(ops->idle(p->gpus[0].dev, clock_deadline(60 * CLOCK_NS_PER_S), &p->err), 0);
	cr_assert_eq(atomic_load(p->gpus[0].target.done), 1u);
	cuda_fake_settle(p->fake);
	cr_assert_eq(cuda_fake_live(p->fake), live, "nobody has looked");
	for (int i = 0; i < 2; i++) /* another arena there */
		cr_assert_eq(ops->arena_attach(p->gpus[i].dev, p->arena, p->arena_bytes, &p->err), 0, "%s",
			     p->err.text);
	cr_assert_eq(cuda_fake_live(p->fake), live);
	cr_assert_eq(pair_launch(p, NULL), 0);
	cuda_fake_settle(p->fake);
	cr_assert_eq(atomic_load(p->gpus[1].target.done), 1u);
	pair_free(p, false);
}

Test(cuda_pair, whoever_is_given_addresses_that_a_gpu_may_touch_yet_is_told)
{
	struct pair *p = pair_make(4, 0);
	cuda_fake_rt(p->fake)->patience = 20 * CLOCK_NS_PER_MS;
	cuda_fake_hold(p->fake, true);
	cr_assert_eq(pair_launch(p, NULL), 0);
	uint64_t live = cuda_fake_live(p->fake);
	for (int i = 0; i < 2; i++)
		ops->arena_detach(p->gpus[i].dev, p->arena);
	cr_assert_eq(ops->arena_attach(p->gpus[1].dev, p->arena, p->arena_bytes, &p->err), -EEXIST);
	cr_assert(strstr(p->err.text, "hangs"), "%s", p->err.text);
	cr_assert_eq(cuda_fake_live(p->fake), live);
	ops->arena_detach(p->gpus[1].dev, p->arena); /* which it has not got */
	cr_assert_eq(cuda_fake_live(p->fake), live);
	cuda_fake_hold(p->fake, false);
	cuda_fake_settle(p->fake);
	pair_free(p, false); /* by closing its GPUs it is unpinned */
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

static int whole_life(struct pair *p, unsigned flags)
{
	int rc = pair_up(p, flags);
	struct rt_stream *caller = p->gpus[0].stream;
	for (int round = 0; rc == 0 && round < 2; round++) {
		rc = pair_launch(p, caller);
		if (rc == 0)
			rc = pair_fence(p, 1, caller);
		if (rc == 0)
			rc = pair_fence(p, FENCE_ALL, caller);
		cuda_fake_settle(p->fake); /* no stream waits for one that dies later */
		for (int i = 0; rc == 0 && i < 2; i++)
			rc = ops->restore(p->gpus[i].dev, p->arena + PAIR_HEAD, p->gpus[i].spans, PAIR_SPANS,
					  p->gpus[i].target.leaves, caller, NULL, &p->err);
	}
	return rc;
}

static uint64_t calls_of_a_life(unsigned flags)
{
	struct pair *p = pair_memory(1);
	cr_assert_eq(whole_life(p, flags), 0, "%s", p->err.text);
	uint64_t calls = cuda_fake_calls(p->fake);
	pair_free(p, false);
	return calls;
}

static void fail_call(uint64_t n, bool sticky, unsigned flags)
{
	struct pair *p = pair_memory(n);
	/* One GPU may wait for what the other one, which has died, does not do any more. What is done takes milliseconds. */
	cuda_fake_rt(p->fake)->patience = 2 * CLOCK_NS_PER_S;
	cuda_fake_fail_call(p->fake, n, sticky);
	int rc = whole_life(p, flags);
	const char *failed = cuda_fake_failed(p->fake);
	bool late = failed &&
		    (strstr(failed, "make_current") || strstr(failed, "interaction") || strstr(failed, "destroy") ||
		     strstr(failed, "free") || strstr(failed, "unregister") || strstr(failed, "release"));
	bool ungathered = !sticky && rc == 0 && (p->gpus[0].dev->crowded || p->gpus[1].dev->crowded);
	if (failed && !late && !ungathered) {
		cr_assert_lt(rc, 0, "call %lu (%s) failed and nobody said so", n, failed);
		cr_assert(strstr(p->err.text, "injected"), "%s", p->err.text);
	}
	pair_free(p, sticky);
}

Test(cuda_pair, every_call_that_fails_is_reported_and_leaks_nothing)
{
	for (unsigned flags = 0; flags <= PLAN_STAGED; flags++) {
		uint64_t calls = calls_of_a_life(flags);
		cr_assert_gt(calls, 120u);
		for (uint64_t n = 1; n <= calls + 20; n++)
			fail_call(n, false, flags);
	}
}

Test(cuda_pair, a_sticky_error_at_every_call_is_reported)
{
	uint64_t calls = calls_of_a_life(0);
	for (uint64_t n = 1; n <= calls + 20; n++)
		fail_call(n, true, 0);
}

/* The second GPU dies at some operation: its capture never says that it is complete when it is not, and the first one goes on. */
Test(cuda_pair, a_gpu_that_dies_leaves_the_other)
{
	int first_died = 0, second_died = 0;
	for (uint64_t n = 1; n < 40; n++) {
		struct pair *p = pair_make(n, 0);
		cuda_fake_hold(p->fake, true);
		for (int i = 0; i < 2; i++)
			pair_kernel(p, i, i ? NULL : p->gpus[0].stream, i, FENCE_ALL, 1);
		cr_assert_eq(pair_launch(p, p->gpus[0].stream), 0);
		cr_assert_eq(pair_fence(p, FENCE_ALL, p->gpus[0].stream), 0);
		cuda_fake_fail_op(p->fake, n);
		cuda_fake_hold(p->fake, false);
		cuda_fake_settle(p->fake);
		bool dead[2] = {cuda_fake_dead(p->fake, 0), cuda_fake_dead(p->fake, 1)};
		for (int i = 0; i < 2; i++) {
			const struct pair_gpu *g = &p->gpus[i];
			if (atomic_load(g->target.done) == 1)
				cr_assert(pair_holds(p, i, 1) && pair_digested(p, i, 1));
			if (!dead[i])
				continue;
			cr_assert_eq(ops->plan_fence(g->plan, FENCE_ALL, NULL, 0, NULL, &p->err), -EIO);
			cr_assert_eq(ops->plan_launch(g->plan, NULL, &g->target, 0, &p->err), -EIO);
			cr_assert_eq(ops->idle(g->dev, clock_deadline(60 * CLOCK_NS_PER_S), &p->err), -EIO);
		}
		if (dead[1]) {
			cr_assert_eq(atomic_load(p->gpus[0].target.done), 1u);
			cr_assert_eq(ops->plan_launch(p->gpus[0].plan, NULL, &p->gpus[0].target, 0, &p->err), 0, "%s",
				     p->err.text);
			cuda_fake_settle(p->fake);
			cr_assert_eq(atomic_load(p->gpus[0].target.done), 1u);
		}
		first_died += dead[0];
		second_died += dead[1];
		pair_free(p, dead[0] || dead[1]);
	}
	cr_assert_gt(first_died, 5);
	cr_assert_gt(second_died, 5);
}

/* ---- the fake itself --------------------------------------------------------------------------------------------- */

Test(cuda_pair, the_fake_refuses_what_cuda_does_with_two_gpus)
{
	struct pair *p = pair_make(5, 0);
	struct cuda_rt *rt = cuda_fake_rt(p->fake);
	struct rt_event *event;
	int whose = -1;
	cr_assert_eq(rt->host_register(rt, p->arena + 4096, 4096), 712);
	cr_assert_eq(rt->errno_of(rt, 712), -EEXIST);
	cr_assert_eq(rt->event_create(rt, &event), 0); /* of GPU 0 */
	cr_assert_eq(rt->event_record(rt, event, p->gpus[1].stream), 400);
	cr_assert_eq(rt->event_record(rt, event, p->gpus[0].stream), 0);
	cr_assert_eq(rt->stream_wait(rt, p->gpus[1].stream, event), 0);
	cr_assert_eq(rt->stream_device(rt, p->gpus[1].stream, &whose), 0);
	cr_assert_eq(whose, 1);
	cr_assert_eq(rt->copy(rt, p->arena, p->arena + 64, 8, p->gpus[1].stream), 400);
	cr_assert_eq(rt->event_destroy(rt, event), 0);
	cuda_fake_hold(p->fake, true);
	cr_assert_eq(pair_launch(p, NULL), 0);
	cr_assert_neq(rt->host_unregister(rt, p->arena), 0);
	cuda_fake_hold(p->fake, false);
	pair_free(p, false);
}
