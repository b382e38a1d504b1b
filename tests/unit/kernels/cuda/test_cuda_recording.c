/* Streams that record a graph while the CUDA device is called: they are refused, and the recording is as it was. */
#include "cuda_pair.h"
#include "cuda_world.h"

#include "base/clock.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static const struct device_ops *const ops = &device_cuda_ops;

static int restore(struct cuda_world *w, struct rt_stream *stream)
{
	return ops->restore(w->dev, w->packed, w->spans, WORLD_SPANS, NULL, stream, NULL, &w->err);
}

static void expect_refused(struct cuda_world *w, int rc, const char *who)
{
	cr_assert_eq(rc, -EINVAL, "%d: %s", rc, w->err.text);
	cr_assert(strstr(w->err.text, who) && strstr(w->err.text, "recording a graph"), "%s", w->err.text);
}

/* Before the first save, and then with one under way that is to be fenced. */
Test(cuda_recording, a_stream_that_records_is_refused_and_its_recording_stays_valid)
{
	struct cuda_world *w = cuda_world_make(1);
	cuda_fake_record(w->fake, w->stream, false);
	cuda_world_kernel(w, 7);
	expect_refused(w, cuda_world_launch(w), "the stream is");
	expect_refused(w, restore(w, w->stream), "the stream is");
	cr_assert_eq(cuda_fake_recorded(w->fake, w->stream), 0);
	cuda_fake_settle(w->fake);

	cr_assert_eq(cuda_world_launch(w), 0, "%s", w->err.text);
	cuda_fake_record(w->fake, w->stream, false);
	cuda_world_kernel(w, 8);
	expect_refused(w, cuda_world_fence(w), "the stream is");
	cr_assert_eq(cuda_fake_recorded(w->fake, w->stream), 0);
	cuda_fake_settle(w->fake);
	cr_assert_eq(cuda_world_fence(w), 0, "the fence behind the recording: %s", w->err.text);
	cuda_world_free(w);
}

/* All that a rank does while another stream records: nothing of it may end the recording, nor wait for it. */
Test(cuda_recording, what_another_stream_records_stays_valid)
{
	struct cuda_world *w = cuda_world_make(2);
	struct cuda_rt *rt = cuda_fake_rt(w->fake);
	struct rt_stream *other = cuda_fake_stream(w->fake);
	char *second = aligned_alloc(4096, 4096);
	cuda_fake_record(w->fake, other, false);
	for (int round = 0; round < 2; round++) {
		cr_assert_eq(cuda_world_launch(w), 0, "%s", w->err.text);
		cr_assert_eq(cuda_world_fence(w), 0, "%s", w->err.text);
		cr_assert_eq(ops->idle(w->dev, clock_deadline(10 * CLOCK_NS_PER_S), &w->err), 0, "%s", w->err.text);
	}
	cr_assert_eq(restore(w, w->stream), 0, "%s", w->err.text);
	cr_assert_eq(ops->arena_attach(w->dev, second, 4096, &w->err), 0, "%s", w->err.text);
	ops->arena_detach(w->dev, second);
	cr_assert_eq(cuda_fake_recorded(w->fake, other), 0);
	cuda_fake_settle(w->fake);
	cr_assert_eq(rt->stream_destroy(rt, other), 0);
	free(second);
	cuda_world_free(w);
}

/* The runtime would refuse the default stream, and end the recording with that. */
Test(cuda_recording, the_default_stream_is_refused_while_one_beside_it_records)
{
	struct cuda_world *w = cuda_world_make(3);
	cuda_fake_record(w->fake, w->stream, true);
	expect_refused(w, ops->plan_launch(w->plan, NULL, &w->target, 0, &w->err), "the default stream");
	expect_refused(w, restore(w, NULL), "the default stream");
	cr_assert_eq(cuda_fake_recorded(w->fake, w->stream), 0);
	cuda_fake_settle(w->fake);
	cr_assert_eq(ops->plan_launch(w->plan, NULL, &w->target, 0, &w->err), 0, "%s", w->err.text);
	cuda_fake_settle(w->fake);
	cuda_world_free(w);
}

/* The default stream of the second GPU stands in for the caller's, which is of the first. */
Test(cuda_recording, so_is_one_that_stands_in_for_a_stream_of_another_gpu)
{
	struct pair *p = pair_make(4, 0);
	struct rt_stream *caller = p->gpus[0].stream, *other = p->gpus[1].stream;
	cuda_fake_record(p->fake, other, true);
	cr_assert_eq(ops->plan_launch(p->gpus[1].plan, caller, &p->gpus[1].target, 0, &p->err), -EINVAL);
	cr_assert(strstr(p->err.text, "GPU 1: the default stream"), "%s", p->err.text);
	cr_assert_eq(cuda_fake_recorded(p->fake, other), 0);
	cr_assert_eq(pair_launch(p, caller), 0, "%s", p->err.text);
	cuda_fake_record(p->fake, other, true);
	cr_assert_eq(pair_fence(p, FENCE_ALL, caller), -EINVAL);
	cr_assert_eq(cuda_fake_recorded(p->fake, other), 0);
	cr_assert_eq(pair_fence(p, FENCE_ALL, caller), 0, "%s", p->err.text);
	cuda_fake_settle(p->fake);
	pair_free(p, false);
}
