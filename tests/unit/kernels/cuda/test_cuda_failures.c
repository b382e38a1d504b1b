/* The CUDA device when the runtime fails, the GPU dies, or everything ends in the middle. */
#include "cuda_world.h"

#include "base/clock.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static const struct device_ops *const ops = &device_cuda_ops;

/* Everything once. Returns the first error; what was made is in w. flags: of the plan. */
static int whole_life(struct cuda_world *w, unsigned flags)
{
	struct cuda_rt *rt = cuda_fake_rt(w->fake);
	/* The thread is on another GPU than the device, and has a training stream on the device's. */
	int rc = device_cuda_open(rt, 1, &w->dev, &w->err);
	if (rc == 0)
		rc = ops->arena_attach(w->dev, w->arena, w->arena_bytes, &w->err);
	if (rc == 0)
		rc = ops->plan_new(w->dev, w->data, w->spans, WORLD_SPANS, WORLD_GRANULE, flags, &w->plan, &w->err);
	for (int round = 0; rc == 0 && round < 2; round++) {
		w->target.held = round;
		w->target.newest = w->leaves; /* what is held is guessed to be all */
		rc = cuda_world_launch(w);
		if (rc < 0) {
			/* Half a launch leaves nothing running behind its error; a dead GPU (-EIO) runs nothing anyway.
			 * */
			cr_assert(rc == -EIO || !cuda_fake_pending(w->fake), "%s", w->err.text);
			return rc;
		}
		rc = ops->plan_fence(w->plan, 3, w->stream, 0, NULL, &w->err);
		if (rc == 0)
			rc = cuda_world_fence(w);
		if (rc == 0)
			rc = ops->restore(w->dev, w->packed, w->spans, WORLD_SPANS, round ? w->want : NULL, NULL, NULL,
					  &w->err);
		if (rc == 0 && round)
			rc = cuda_world_restore(w, 1, w->nleaves - 1, NULL);
		if (rc == 0)
			rc = ops->plan_rebind(w->plan, w->spans, WORLD_SPANS, &w->err);
	}
	return rc;
}

static uint64_t calls_of_a_life(unsigned flags, uint64_t *until_teardown)
{
	struct cuda_world *w = cuda_world_memory(1);
	cuda_world_expect(w, 3);
	cr_assert_eq(whole_life(w, flags), 0, "%s", w->err.text);
	*until_teardown = cuda_fake_calls(w->fake);
	struct cuda_fake *fake = w->fake;
	ops->plan_free(w->plan);
	w->plan = NULL;
	ops->arena_detach(w->dev, w->arena);
	ops->close(w->dev);
	w->dev = NULL;
	uint64_t calls = cuda_fake_calls(fake);
	cuda_world_free(w);
	return calls;
}

/* How often stream_query is asked depends on the schedule: the calls are counted anew in every life. */
static void fail_call(uint64_t n, bool sticky, unsigned flags)
{
	struct cuda_world *w = cuda_world_memory(n);
	cuda_world_expect(w, 3);
	cuda_fake_fail_call(w->fake, n, sticky);
	int rc = whole_life(w, flags);
	const char *failed = cuda_fake_failed(w->fake);
	/* What is only given back when all is done is a line in the log. */
	bool late = failed &&
		    (strstr(failed, "make_current") || strstr(failed, "interaction") || strstr(failed, "destroy") ||
		     strstr(failed, "free") || strstr(failed, "unregister") || strstr(failed, "release"));
	/* Nor does it end a plan that there is no room to gather in. */
	bool ungathered = !sticky && rc == 0 && w->dev->crowded;
	if (failed && !late && !ungathered) {
		cr_assert_lt(rc, 0, "call %lu (%s) failed and nobody said so", n, failed);
		cr_assert(strstr(w->err.text, "injected"), "%s", w->err.text);
		cr_assert(rc == -ENOMEM || rc == -EIO);
	}
	cuda_world_free(w); /* asserts that nothing leaked */
}

Test(cuda_failures, every_call_that_fails_is_reported_and_leaks_nothing)
{
	for (unsigned flags = 0; flags <= PLAN_STAGED; flags++) {
		uint64_t until_teardown, calls = calls_of_a_life(flags, &until_teardown);
		cr_assert_gt(until_teardown, 60u);
		for (uint64_t n = 1; n <= calls; n++)
			fail_call(n, false, flags);
	}
}

Test(cuda_failures, a_sticky_error_at_every_call_is_reported_and_leaks_nothing)
{
	for (unsigned flags = 0; flags <= PLAN_STAGED; flags++) {
		uint64_t until_teardown, calls = calls_of_a_life(flags, &until_teardown);
		for (uint64_t n = 1; n <= calls; n++)
			fail_call(n, true, flags);
	}
}

/* The calls behind the launch of the copies fail, when these already run. */
Test(cuda_failures, half_a_launch_leaves_nothing_running_behind_its_error)
{
	struct cuda_world *w = cuda_world_make(0);
	cr_assert_eq(cuda_world_launch(w), 0);
	cuda_fake_settle(w->fake);
	uint64_t calls = cuda_fake_calls(w->fake);
	cr_assert_eq(cuda_world_launch(w), 0);
	calls = cuda_fake_calls(w->fake) - calls;
	cuda_world_free(w);
	for (uint64_t seed = 0; seed < 90; seed++) {
		w = cuda_world_make(seed);
		cr_assert_eq(cuda_world_launch(w), 0);
		cuda_fake_settle(w->fake);
		cuda_fake_fail_call(w->fake, calls - 1 - seed % 3, false); /* the last one leaves the device */
		cr_assert_eq(cuda_world_launch(w), -ENOMEM);
		cr_assert_eq(cuda_fake_pending(w->fake), 0u, "seed %lu (%s)", seed, cuda_fake_failed(w->fake));
		cr_assert_eq(atomic_load(w->done), (uint32_t)-ENOMEM);
		cr_assert_eq(cuda_world_fence(w), -EINVAL);
		cr_assert_eq(cuda_world_launch(w), 0);
		cuda_world_free(w);
	}
}

/* The GPU dies at its n-th operation: it writes nothing more, and whoever asks is told. */
Test(cuda_failures, a_gpu_that_dies_never_completes_a_capture)
{
	int completed = 0;
	for (uint64_t n = 1; n < 60; n++) {
		struct cuda_world *w = cuda_world_make(n);
		cuda_world_expect(w, 1);
		cuda_fake_fail_op(w->fake, n);
		cuda_world_kernel(w, 1);
		int rc = cuda_world_launch(w);
		cuda_fake_settle(w->fake);
		bool died = cuda_fake_failed(w->fake) != NULL;
		if (rc == 0 && died) {
			/* Only what is complete says so, be it in the last moment. */
			if (atomic_load(w->done) == 1)
				cr_assert(cuda_world_matches(w) && cuda_world_digests_match(w), "operation %lu", n);
			completed += atomic_load(w->done) == 1;
			cr_assert_eq(cuda_world_fence(w), -EIO);
			cr_assert(strstr(w->err.text, "GPU 0"), "%s", w->err.text);
			cr_assert_eq(cuda_world_launch(w), -EIO);
			cr_assert_eq(
				ops->restore(w->dev, w->packed, w->spans, WORLD_SPANS, NULL, w->stream, NULL, &w->err),
				-EIO);
		}
		cr_assert(died || n > 20, "operation %lu did not come", n);
		cuda_world_free(w);
	}
	cr_assert_leq(completed, 1);
}

Test(cuda_failures, releasing_with_work_in_flight_waits_for_it)
{
	for (uint64_t seed = 0; seed < 60; seed++) {
		struct cuda_world *w = cuda_world_make(seed);
		bool plan_first = seed % 2;
		cr_assert_eq(cuda_world_launch(w), 0);
		if (plan_first)
			ops->plan_free(w->plan);
		else
			ops->close(w->dev);
		/* Done either way: nothing of the capture is left that could touch the arena. */
		cr_assert_eq(cuda_fake_pending(w->fake), 0u);
		cr_assert_eq(atomic_load(w->done), 1u);
		if (plan_first) {
			w->plan = NULL;
		} else {
			cr_assert_eq(cuda_world_launch(w), -ECANCELED);
			ops->arena_detach(w->dev, w->arena); /* the plan still holds the device */
			w->dev = NULL;
		}
		cuda_world_free(w);
	}
}

Test(cuda_failures, a_gpu_that_hangs_is_given_up_after_a_while)
{
	struct cuda_world *w = cuda_world_make(1);
	cuda_fake_rt(w->fake)->patience = 20 * CLOCK_NS_PER_MS;
	cuda_fake_hold(w->fake, true);
	cr_assert_eq(cuda_world_launch(w), 0);
	cr_assert_eq(cuda_world_fence(w), 0); /* the stream waits, not the thread */
	cr_assert_eq(ops->restore(w->dev, w->packed, w->spans, WORLD_SPANS, NULL, w->stream, NULL, &w->err),
		     -ETIMEDOUT);
	cr_assert(strstr(w->err.text, "did not end within 20 ms"), "%s", w->err.text);
	ops->plan_free(w->plan);
	w->plan = NULL;
	cuda_fake_hold(w->fake, false); /* what was in flight runs on without the plan */
	cuda_fake_settle(w->fake);
	cuda_world_free(w);
}

/* Each plan, slot and handle that ends asks whether the device is at an end. */
Test(cuda_failures, a_gpu_that_hangs_is_waited_for_once)
{
	enum { MORE = 3 };
	struct cuda_world *w = cuda_world_make(1);
	struct plan *plans[MORE];
	uint64_t patience = cuda_fake_rt(w->fake)->patience = CLOCK_NS_PER_S;
	for (int i = 0; i < MORE; i++)
		cr_assert_eq(
			ops->plan_new(w->dev, w->data, w->spans, WORLD_SPANS, WORLD_GRANULE, 0, &plans[i], &w->err), 0,
			"%s", w->err.text);
	cuda_fake_hold(w->fake, true);
	cr_assert_eq(cuda_world_launch(w), 0);
	for (int i = 0; i < MORE; i++)
		cr_assert_eq(ops->plan_launch(plans[i], w->stream, &w->target, 0, &w->err), 0, "%s", w->err.text);
	uint64_t before = clock_now();
	for (int i = 0; i < MORE; i++)
		ops->plan_free(plans[i]);
	ops->plan_free(w->plan);
	w->plan = NULL;
	ops->arena_detach(w->dev, w->arena);
	cr_assert_lt(clock_now() - before, 5 * patience / 2);
	cuda_fake_hold(w->fake, false);
	cuda_fake_settle(w->fake);
	cuda_world_free(w);
}
