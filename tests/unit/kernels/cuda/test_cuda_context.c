/* Which context a thread has behind a call of the CUDA device, and on which GPUs there is one. */
#include "cuda_world.h"

#include "base/clock.h"

#include <criterion/criterion.h>

#include <pthread.h>

static const struct device_ops *const ops = &device_cuda_ops;

static struct rt_context *current(struct cuda_world *w)
{
	struct cuda_rt *rt = cuda_fake_rt(w->fake);
	struct rt_context *context = NULL;
	cr_assert_eq(rt->current(rt, &context), 0);
	return context;
}

/* All that a rank calls, on GPU 1. NULL: the default stream of the device's GPU, not of the thread's. */
static void live_on_gpu_1(struct cuda_world *w)
{
	struct rt_context *before = current(w);
	cr_assert_eq(device_cuda_open(cuda_fake_rt(w->fake), 1, &w->dev, &w->err), 0, "%s", w->err.text);
	cr_assert_eq(ops->arena_attach(w->dev, w->arena, w->arena_bytes, &w->err), 0);
	cr_assert_eq(ops->plan_new(w->dev, w->data, w->spans, WORLD_SPANS, WORLD_GRANULE, 0, &w->plan, &w->err), 0);
	cr_assert_eq(cuda_world_launch(w), 0, "%s", w->err.text);
	cr_assert_eq(cuda_world_fence(w), 0, "%s", w->err.text);
	cr_assert_eq(ops->restore(w->dev, w->packed, w->spans, WORLD_SPANS, NULL, NULL, NULL, &w->err), 0);
	cr_assert_eq(ops->idle(w->dev, clock_deadline(10 * CLOCK_NS_PER_S), &w->err), 0);
	cr_assert_eq(current(w), before);
}

static void end(struct cuda_world *w)
{
	struct rt_context *before = current(w);
	ops->plan_free(w->plan);
	ops->arena_detach(w->dev, w->arena);
	ops->close(w->dev);
	w->plan = NULL;
	w->dev = NULL;
	cr_assert_eq(current(w), before);
}

Test(cuda_context, a_thread_without_one_has_none_behind_it_and_only_the_gpu_in_use_has_one)
{
	struct cuda_world *w = cuda_world_memory(1);
	live_on_gpu_1(w);
	end(w);
	cr_assert_null(current(w));
	cr_assert_eq(cuda_fake_contexts(w->fake), 1u << 1);
	cuda_world_free(w);
}

static void *end_elsewhere(void *arg)
{
	struct cuda_world *w = arg;
	cr_assert_eq(ops->idle(w->dev, clock_deadline(10 * CLOCK_NS_PER_S), &w->err), 0);
	end(w);
	return NULL;
}

/* As the library's service thread does, which never chose a GPU. */
Test(cuda_context, so_it_is_where_another_thread_waits_and_lets_go)
{
	struct cuda_world *w = cuda_world_memory(2);
	pthread_t other;
	live_on_gpu_1(w);
	cr_assert_eq(pthread_create(&other, NULL, end_elsewhere, w), 0);
	cr_assert_eq(pthread_join(other, NULL), 0);
	cr_assert_eq(cuda_fake_contexts(w->fake), 1u << 1);
	cuda_world_free(w);
}

Test(cuda_context, a_thread_keeps_the_one_of_its_own_gpu)
{
	struct cuda_world *w = cuda_world_memory(3);
	cuda_fake_select(w->fake, 0);
	struct rt_context *own = current(w);
	live_on_gpu_1(w);
	end(w);
	cr_assert_not_null(own);
	cr_assert_eq(current(w), own);
	cuda_world_free(w);
}
