#include "loop/straggler.h"

#include <criterion/criterion.h>

static struct straggler s;

static enum straggler_news step(uint64_t number, double a, double b, double c, double d)
{
	double ms[] = {a, b, c, d}, scratch[4];

	return straggler_step(&s, number, ms, 4, scratch);
}

Test(straggler, is_named_after_some_steps_with_what_it_has_cost)
{
	s = (struct straggler){0};
	for (uint64_t i = 1; i < STRAGGLER_STEPS; i++)
		cr_assert_eq(step(i, 10, 11, 40, 10), STRAGGLER_NOTHING);
	cr_assert_eq(step(STRAGGLER_STEPS, 10, 11, 40, 10), STRAGGLER_FOUND);
	cr_expect_eq(s.rank, 2);
	cr_expect_eq(s.since, 1);
	cr_expect_float_eq(s.lost_ms, STRAGGLER_STEPS * 29.0, 1e-9);
	cr_expect_float_eq(s.middle_ms, 10, 1e-9);
	cr_assert_eq(step(STRAGGLER_STEPS + 1, 10, 11, 40, 10), STRAGGLER_NOTHING);
	cr_expect_eq(s.steps, STRAGGLER_STEPS + 1);
	for (uint64_t i = 1; i < STRAGGLER_STEPS; i++)
		cr_assert_eq(step(20 + i, 10, 11, 10, 10), STRAGGLER_NOTHING);
	cr_assert_eq(step(40, 10, 11, 10, 10), STRAGGLER_OVER);
	cr_expect_float_eq(s.lost_ms, (STRAGGLER_STEPS + 1) * 29.0, 1e-9);
	cr_expect_not(s.slow);
}

Test(straggler, noise_names_nobody)
{
	s = (struct straggler){0};
	for (uint64_t i = 0; i < 100; i++) {
		double spread[4] = {10, 10, 10, 10};

		spread[i % 4] = 100; /* another one in each step */
		cr_assert_eq(step(i, spread[0], spread[1], spread[2], spread[3]), STRAGGLER_NOTHING);
		cr_assert_eq(step(i, 10, 19, 12, 11), STRAGGLER_NOTHING, "not twice as long");
		cr_assert_eq(step(i, 1, 4, 1, 1), STRAGGLER_NOTHING, "a few milliseconds");
	}
}

Test(straggler, of_two_ranks_either_can_be_it)
{
	double ms[] = {90, 10}, scratch[2];

	s = (struct straggler){0};
	for (uint64_t i = 1; i < STRAGGLER_STEPS; i++)
		cr_assert_eq(straggler_step(&s, i, ms, 2, scratch), STRAGGLER_NOTHING);
	cr_assert_eq(straggler_step(&s, 9, ms, 2, scratch), STRAGGLER_FOUND);
	cr_expect_eq(s.rank, 0);
	s = (struct straggler){0};
	for (uint64_t i = 1; i < 100; i++)
		cr_assert_eq(straggler_step(&s, i, ms, 1, scratch), STRAGGLER_NOTHING, "alone");
}
