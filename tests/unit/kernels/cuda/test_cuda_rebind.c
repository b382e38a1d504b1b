/* A plan whose spans stand at other addresses from a launch on. */
#include "cuda_world.h"

#include "kept.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

enum { SEEDS = 30 };

static const struct device_ops *const ops = &device_cuda_ops;

/* A training step with a save: the state is made by work that is still in the stream at the launch, and changed by the
 * optimiser right behind the fence. All of it is submitted while the GPU stands still, so that the seed decides. */
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

/* The state is elsewhere; what stood before it is painted over. */
static char *move_state(struct cuda_world *w)
{
	char *former = w->state, *other = kept_take(WORLD_STATE);
	for (int i = 0; i < WORLD_SPANS; i++)
		w->spans[i].memory = other + ((char *)w->spans[i].memory - former);
	w->state = other;
	memset(former, 0x55, WORLD_STATE);
	return former;
}

Test(cuda_rebind, a_plan_goes_on_at_other_addresses)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct cuda_world *w = cuda_world_make_with(seed, seed % 2 ? PLAN_STAGED : 0);
		save_and_step(w);
		cr_assert(cuda_world_matches(w), "seed %lu", seed);
		char *former = move_state(w);
		cr_assert_eq(ops->plan_rebind(w->plan, w->spans, WORLD_SPANS, &w->err), 0, "%s", w->err.text);
		kept_give(former);
		save_and_step(w);
		cr_assert(cuda_world_matches(w), "seed %lu", seed);
		cr_assert_arr_eq(w->leaves, w->want, w->nleaves * 8, "seed %lu", seed);
		cuda_world_free(w);
	}
}

Test(cuda_rebind, addresses_change_between_launches_and_nothing_else_does)
{
	struct cuda_world *w = cuda_world_make(3);
	cuda_fake_hold(w->fake, true);
	cr_assert_eq(cuda_world_launch(w), 0);
	cr_assert_eq(ops->plan_rebind(w->plan, w->spans, WORLD_SPANS, &w->err), -EBUSY);
	cuda_fake_hold(w->fake, false);
	cuda_fake_settle(w->fake);
	cr_assert_eq(ops->plan_rebind(w->plan, w->spans, 1, &w->err), -EINVAL);
	w->spans[0].group = 2;
	cr_assert_eq(ops->plan_rebind(w->plan, w->spans, WORLD_SPANS, &w->err), -EINVAL);
	cr_assert(strstr(w->err.text, "differs in more than its memory"), "%s", w->err.text);
	w->spans[0].group = 3;
	save_and_step(w);
	cr_assert(cuda_world_matches(w));
	cuda_world_free(w);
}
