/* A plan of the host whose state is elsewhere from the next launch on. */
#include "gate.h"
#include "kernels.h"

#include "base/clock.h"
#include "format/tensor/digest.h"

#include <criterion/criterion.h>

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

enum { SPANS = 2, SIZE = 8 * LEAF_SIZE, LEAVES_MAX = 16 };

static struct device *dev;
static struct plan *plan;
static struct span spans[SPANS];
static char *state, *arena;
static _Atomic uint64_t progress;
static _Atomic uint32_t done;
static uint64_t leaves[LEAVES_MAX], before[LEAVES_MAX];
static struct err err;

static void up(void)
{
	state = gate_memory(SIZE);
	arena = gate_memory(SIZE);
	memset(state, 1, SIZE);
	spans[0] = (struct span){.memory = state, .row_bytes = 4 * LEAF_SIZE + 100};
	spans[1] = (struct span){.memory = state + 5 * LEAF_SIZE,
				 .row_bytes = 48,
				 .ndim = 1,
				 .count = {1000},
				 .stride = {160},
				 .arena_at = 4 * LEAF_SIZE + 100,
				 .first_leaf = 5};
	cr_assert_eq(device_host.open(DEVICE_HOST, &dev, &err), 0);
	cr_assert_eq(device_host.plan_new(dev, arena, spans, SPANS, LEAF_SIZE, 0, &plan, &err), 0, "%s", err.text);
}

static void down(void)
{
	device_host.plan_free(plan);
	device_host.close(dev);
}

TestSuite(rebind, .init = up, .fini = down);

/* The state is elsewhere, and with another value; what stood before it is gone. */
static void move_state(int value)
{
	char *other = gate_memory(SIZE);
	memset(other, value, SIZE);
	for (int i = 0; i < SPANS; i++)
		spans[i].memory = other + ((char *)spans[i].memory - state);
	munmap(state, SIZE);
	state = other;
}

static int rebind(size_t n)
{
	return device_host.plan_rebind(plan, spans, n, &err);
}

static int launch(void)
{
	const struct capture_target target = {.progress = &progress, .done = &done, .leaves = leaves, .before = before};
	return device_host.plan_launch(plan, NULL, &target, CAPTURE_STRICT, &err);
}

static int fence(void)
{
	return device_host.plan_fence(plan, FENCE_ALL, NULL, clock_deadline(60 * CLOCK_NS_PER_S), NULL, &err);
}

static void check_capture(int value)
{
	cr_assert_eq(launch(), 0, "%s", err.text);
	cr_assert_eq(fence(), 0, "%s", err.text);
	for (uint64_t i = 0; i < atomic_load(&progress); i++)
		cr_assert_eq(arena[i], value, "byte %lu", i);
	cr_assert_eq(atomic_load(&progress), 4 * LEAF_SIZE + 100 + 48000);
}

Test(rebind, a_plan_goes_on_at_other_addresses)
{
	check_capture(1);
	for (int value = 2; value < 5; value++) {
		move_state(value);
		cr_assert_eq(rebind(SPANS), 0, "%s", err.text);
		cr_assert_eq(fence(), 0, "the answer of the last launch stays");
		check_capture(value);
	}
}

Test(rebind, addresses_change_between_launches_and_nothing_else_does)
{
	gate_close(arena + 3 * LEAF_SIZE);
	cr_assert_eq(launch(), 0);
	gate_await();
	cr_assert_eq(rebind(SPANS), -EBUSY);
	gate_open();
	cr_assert_eq(fence(), 0);
	cr_assert_eq(rebind(SPANS - 1), -EINVAL);
	cr_assert(strstr(err.text, "1 spans are not the 2 of the plan"), "%s", err.text);
	spans[1].count[0]--;
	cr_assert_eq(rebind(SPANS), -EINVAL);
	cr_assert(strstr(err.text, "span 1 of 2 differs in more than its memory"), "%s", err.text);
	spans[1].count[0]++;
	spans[1].memory = NULL;
	cr_assert_eq(rebind(SPANS), -EINVAL);
	cr_assert(strstr(err.text, "span 1 of 2: the span's memory is NULL"), "%s", err.text);
	check_capture(1);
}

static int move_some(const struct span *some, const uint32_t *which, size_t n)
{
	return device_host.plan_move(plan, some, which, n, &err);
}

Test(rebind, some_spans_move_and_the_others_stay)
{
	static const uint32_t second = 1;
	char *other = gate_memory(SIZE);
	memset(other, 2, SIZE);
	check_capture(1);
	struct span moved = spans[1];
	moved.memory = other;
	cr_assert_eq(move_some(&moved, &second, 1), 0, "%s", err.text);
	cr_assert_eq(launch(), 0, "%s", err.text);
	cr_assert_eq(fence(), 0, "%s", err.text);
	cr_assert(arena[0] == 1 && arena[spans[1].arena_at - 1] == 1);
	for (uint64_t i = 0; i < 48000; i++)
		cr_assert_eq(arena[spans[1].arena_at + i], 2, "byte %lu", i);
	munmap(other, SIZE);
}

Test(rebind, a_move_that_is_refused_moves_nothing)
{
	static const uint32_t both[2] = {0, 1}, beyond[2] = {0, SPANS};
	char *other = gate_memory(SIZE);
	struct span moved[2] = {spans[0], spans[1]};
	memset(other, 2, SIZE);
	moved[0].memory = other;
	moved[1].row_bytes--;
	cr_assert_eq(move_some(moved, both, 2), -EINVAL);
	cr_assert(strstr(err.text, "span 1 of 2 differs in more than its memory"), "%s", err.text);
	cr_assert_eq(move_some(moved, beyond, 2), -EINVAL);
	cr_assert(strstr(err.text, "there is no span 2 of 2"), "%s", err.text);
	moved[1] = spans[1];
	moved[1].memory = NULL;
	cr_assert_eq(move_some(moved, both, 2), -EINVAL);
	cr_assert(strstr(err.text, "span 1 of 2: the span's memory is NULL"), "%s", err.text);
	check_capture(1);
	gate_close(arena + 3 * LEAF_SIZE);
	cr_assert_eq(launch(), 0);
	gate_await();
	cr_assert_eq(move_some(moved, both, 1), -EBUSY);
	gate_open();
	cr_assert_eq(fence(), 0);
	munmap(other, SIZE);
}
