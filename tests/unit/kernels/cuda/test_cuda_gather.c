/* What is small or strided, gathered in a room of the device: it is the state of the launch, plans take turns in the room, and the copy
 * engine alone does the rest. */
#include "capture/cuda_gather.h"
#include "cuda_log.h"
#include "cuda_world.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

enum { SEEDS = 100 };

static const struct device_ops *const ops = &device_cuda_ops;

static void save_and_step(struct cuda_world *w)
{
	cuda_fake_hold(w->fake, true);
	cuda_world_kernel(w, 1);
	cr_assert_eq(cuda_world_launch(w), 0, "%s", w->err.text);
	cr_assert_eq(cuda_world_fence(w), 0, "%s", w->err.text);
	cuda_world_kernel(w, 2);
	cuda_fake_hold(w->fake, false);
	cuda_fake_settle(w->fake);
	cuda_world_expect(w, 1);
}

/* The training's kernels take all of the GPU: those that it launched itself run, the device's own never do. */
Test(cuda_gather, a_full_gpu_delays_no_copy)
{
	for (uint64_t seed = 0; seed < 40; seed++) {
		struct cuda_world *w = cuda_world_make_with(seed, seed % 2 ? PLAN_STAGED : 0);
		cuda_fake_fill(w->fake, true);
		save_and_step(w);
		cr_assert(cuda_world_matches(w), "seed %lu", seed);
		cr_assert_arr_eq(w->leaves, w->want, w->nleaves * 8);
		cr_assert_eq(atomic_load(w->done), 1u);
		cuda_fake_fill(w->fake, false);
		cuda_world_free(w);
	}
}

/* The test of the test: with no room kernels pack on the side stream, and wait. */
Test(cuda_gather, without_room_a_full_gpu_delays_them)
{
	struct cuda_world *w = cuda_world_memory(1);
	int heard = cuda_log_listen();
	cuda_fake_spare(w->fake, 8 << 10);
	cuda_world_up(w, 0);
	cr_assert(w->dev->crowded);
	cr_assert_eq(cuda_log_count(heard, "to gather small tensors in"), 1);
	cuda_fake_fill(w->fake, true);
	save_and_step(w);
	cr_assert_eq(atomic_load(w->done), 0u);
	cuda_fake_fill(w->fake, false);
	cuda_fake_settle(w->fake);
	cr_assert_eq(atomic_load(w->done), 1u);
	cr_assert(cuda_world_matches(w));
	cr_assert_eq(ops->plan_rebind(w->plan, w->spans, WORLD_SPANS, &w->err), 0);
	cr_assert_eq(cuda_log_count(heard, "to gather small tensors in"), 1, "once");
	cuda_world_free(w);
}

Test(cuda_gather, what_exceeds_the_bound_is_packed_where_it_stands)
{
	static const size_t bounds[] = {0, 300, 8 << 10, 110 << 10, 160 << 10};
	for (size_t i = 0; i < sizeof(bounds) / sizeof(*bounds); i++) {
		struct cuda_world *w = cuda_world_memory(i);
		cuda_fake_rt(w->fake)->gather_most = bounds[i];
		cuda_world_up(w, i % 2 ? PLAN_STAGED : 0);
		cr_assert(w->dev->room ? w->dev->room->size <= bounds[i] : bounds[i] < 240, "bound %zu", bounds[i]);
		save_and_step(w);
		cr_assert(cuda_world_matches(w), "bound %zu", bounds[i]);
		cr_assert_eq(atomic_load(w->progress), w->bytes);
		cuda_world_free(w);
	}
}

struct second {
	struct plan *plan;
	char *arena;
	struct capture_target target;
};

static void make_second(struct cuda_world *w, struct second *s)
{
	s->arena = calloc(1, w->arena_bytes + 4096);
	s->target = (struct capture_target){
		.progress = (void *)s->arena, .done = (void *)(s->arena + 64), .leaves = (void *)(s->arena + 128)};
	cr_assert_eq(ops->arena_attach(w->dev, s->arena, w->arena_bytes, &w->err), 0, "%s", w->err.text);
	cr_assert_eq(ops->plan_new(w->dev, s->arena + 4096, w->spans, WORLD_SPANS, WORLD_GRANULE, 0, &s->plan, &w->err),
		     0, "%s", w->err.text);
}

static void drop_second(struct cuda_world *w, struct second *s)
{
	ops->plan_free(s->plan);
	ops->arena_detach(w->dev, s->arena);
	free(s->arena);
}

/* Whether an arena holds of group 5, which is gathered, what it was filled with. */
static bool group_is(const struct cuda_world *w, const char *arena, int fill)
{
	const char *at = arena + w->spans[3].arena_at;
	return at[0] == (char)fill && !memcmp(at, at + 1, span_bytes(&w->spans[3]) - 1);
}

static int (*wait_for)(struct cuda_rt *rt, struct rt_stream *stream, struct rt_event *event);
static struct rt_stream *forgetful;

static int wait_but_not_there(struct cuda_rt *rt, struct rt_stream *stream, struct rt_event *event)
{
	return stream == forgetful ? 0 : wait_for(rt, stream, event);
}

/* Two captures in a row without a fence. What is gathered may be changed right behind the launch: it is not read any more. */
static bool captures_in_turn(uint64_t seed, bool careless)
{
	struct cuda_world *w = cuda_world_make(seed);
	struct cuda_rt *rt = cuda_fake_rt(w->fake);
	struct second s;
	make_second(w, &s);
	cr_assert(w->dev->room && w->dev->room->users == 2, "both share it");
	wait_for = rt->stream_wait;
	forgetful = w->stream;
	if (careless)
		rt->stream_wait = wait_but_not_there;
	cuda_fake_hold(w->fake, true);
	cuda_world_kernel_on(w, 5, 11);
	cr_assert_eq(cuda_world_launch(w), 0, "%s", w->err.text);
	cuda_world_kernel_on(w, 5, 22);
	cr_assert_eq(ops->plan_launch(s.plan, w->stream, &s.target, 0, &w->err), 0, "%s", w->err.text);
	cuda_world_kernel_on(w, 5, 33);
	cuda_fake_hold(w->fake, false);
	cuda_fake_settle(w->fake);
	bool right = group_is(w, w->data, 11) && group_is(w, s.arena + 4096, 22);
	drop_second(w, &s);
	cuda_world_free(w);
	return right;
}

Test(cuda_gather, a_launch_waits_for_the_last_copy_out_of_the_room)
{
	int wrong = 0;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		cr_assert(captures_in_turn(seed, false), "seed %lu", seed);
		wrong += !captures_in_turn(seed, true);
	}
	cr_assert_gt(wrong, SEEDS / 10, "without the wait %d of %d were wrong", wrong, SEEDS);
}

/* A plan that needs more than the room has makes a larger one; the first goes with its plan. */
Test(cuda_gather, a_larger_room_takes_the_place_of_a_smaller)
{
	struct cuda_world *w = cuda_world_make(4);
	struct cuda_room *smaller = w->dev->room;
	struct span all[WORLD_SPANS];
	struct plan *more;
	memcpy(all, w->spans, sizeof(all));
	all[0].row_bytes = 200 << 10; /* gathered, too */
	cr_assert_eq(ops->plan_new(w->dev, w->data, all, WORLD_SPANS, WORLD_GRANULE, 0, &more, &w->err), 0);
	cr_assert_neq(w->dev->room, smaller);
	cr_assert_gt(w->dev->room->size, smaller->size);
	ops->plan_free(more);
	cr_assert_null(w->dev->room);
	save_and_step(w);
	cr_assert(cuda_world_matches(w));
	cuda_world_free(w);
}
