/* Rows that are further apart than the copy engine takes in one call. */
#include "cuda_world.h"

#include "format/tensor/digest.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static const struct device_ops *const ops = &device_cuda_ops;

enum { ROWS = 60, ROW = 8000, PITCH = 16384 };

/* The rows go to the arena and come back. The fake refuses a pitch above PITCH - above. */
static void there_and_back(size_t above, bool kernels)
{
	struct cuda_world *w = cuda_world_memory(above);
	struct cuda_rt *rt = cuda_fake_rt(w->fake);
	struct plan *plan;
	struct span rows = {.memory = w->state + 5, .row_bytes = ROW, .ndim = 1, .count = {ROWS}, .stride = {PITCH}};
	cuda_fake_pitch(w->fake, PITCH - above);
	if (!kernels) {
		rt->pack = NULL;
		rt->unpack = NULL;
		rt->digest = NULL;
		w->target.leaves = NULL;
	}
	cuda_world_up(w, 0);
	uint64_t calls = cuda_copy_calls(w->dev, &rows, 1000);
	cr_assert_eq(calls, above ? ROWS : 1);
	for (int i = 0; i < ROWS; i++)
		memset(w->state + 5 + (size_t)i * PITCH, i + 1, ROW);
	cr_assert_eq(ops->plan_new(w->dev, w->data, &rows, 1, WORLD_GRANULE, 0, &plan, &w->err), 0, "%s", w->err.text);
	cr_assert_eq(ops->plan_launch(plan, w->stream, &w->target, 0, &w->err), 0, "%s", w->err.text);
	cuda_fake_settle(w->fake);
	for (int i = 0; i < ROWS * ROW; i++)
		cr_assert_eq(w->data[i], i / ROW + 1);
	memset(w->state, 0, WORLD_STATE);
	cr_assert_eq(ops->restore(w->dev, w->data, &rows, 1, w->target.leaves, w->stream, NULL, &w->err), 0, "%s",
		     w->err.text);
	for (int i = 0; i < ROWS; i++)
		for (int k = 0; k < PITCH; k++)
			cr_assert_eq(w->state[5 + (size_t)i * PITCH + (size_t)k], k < ROW ? i + 1 : 0);
	ops->plan_free(plan);
	cuda_world_free(w);
}

Test(cuda_pitch, rows_that_are_too_far_apart_are_packed_or_copied_one_by_one)
{
	for (size_t above = 0; above < 2; above++) {
		there_and_back(above, true);
		there_and_back(above, false);
	}
}

/* Nothing is allocated: only what would be called is counted. */
Test(cuda_pitch, rows_that_are_too_long_are_copied_one_by_one)
{
	struct cuda_world *w = cuda_world_make(1);
	struct span rows = {.memory = w->state, .row_bytes = INT32_MAX, .ndim = 1, .count = {7}, .stride = {1ll << 33}};
	cr_assert_eq(cuda_copy_calls(w->dev, &rows, 1000), 7u);
	rows.stride[0] = INT32_MAX;
	cr_assert_eq(cuda_copy_calls(w->dev, &rows, 1000), 1u);
	cuda_world_free(w);
}
