#include "launch_budget.h"

#include "base/clock.h"

#include <criterion/criterion.h>

Test(launch_budget, without_a_window_counts_the_whole_run)
{
	struct budget b = {.max = 3};
	for (uint64_t i = 0; i < 3; i++)
		cr_expect(budget_take(&b, 1 + i * 3600 * CLOCK_NS_PER_S));
	cr_expect_not(budget_take(&b, 1000000 * CLOCK_NS_PER_S));
	cr_expect_eq(b.spent, 3);
}

Test(launch_budget, of_zero_allows_nothing)
{
	struct budget b = {.max = 0};
	cr_expect_not(budget_take(&b, 1));
}

Test(launch_budget, with_a_window_forgets_what_is_older)
{
	struct budget b = {.max = 2, .window_ns = 10 * CLOCK_NS_PER_S};
	cr_expect(budget_take(&b, 100 * CLOCK_NS_PER_S));
	cr_expect(budget_take(&b, 105 * CLOCK_NS_PER_S));
	cr_expect_not(budget_take(&b, 109 * CLOCK_NS_PER_S));
	cr_expect(budget_take(&b, 110 * CLOCK_NS_PER_S));
	cr_expect_not(budget_take(&b, 114 * CLOCK_NS_PER_S));
	cr_expect(budget_take(&b, 115 * CLOCK_NS_PER_S));
	cr_expect_eq(b.spent, 4);
}

Test(launch_budget, streak_gives_up_after_three_quick_failures)
{
	struct streak s = {0};
	uint64_t pause;
	cr_expect(streak_failed(&s, 100 * CLOCK_NS_PER_S, &pause));
	cr_expect_eq(pause, 100 * CLOCK_NS_PER_MS);
	cr_expect(streak_failed(&s, 101 * CLOCK_NS_PER_S, &pause));
	cr_expect_eq(pause, 200 * CLOCK_NS_PER_MS);
	cr_expect_not(streak_failed(&s, 102 * CLOCK_NS_PER_S, &pause));
}

Test(launch_budget, streak_of_slow_failures_goes_on_with_longer_pauses)
{
	struct streak s = {0};
	uint64_t pause = 0;
	for (uint64_t i = 0; i < 100; i++)
		cr_expect(streak_failed(&s, (100 + 6 * i) * CLOCK_NS_PER_S, &pause));
	cr_expect_eq(pause, 5 * CLOCK_NS_PER_S);
	/* Two more at once: three within ten seconds. */
	cr_expect(streak_failed(&s, 701 * CLOCK_NS_PER_S, &pause));
	cr_expect_not(streak_failed(&s, 702 * CLOCK_NS_PER_S, &pause));
}

Test(launch_budget, work_ends_a_streak)
{
	struct streak s = {0};
	uint64_t pause;
	streak_failed(&s, 100 * CLOCK_NS_PER_S, &pause);
	streak_failed(&s, 100 * CLOCK_NS_PER_S, &pause);
	streak_ended(&s);
	cr_expect(streak_failed(&s, 101 * CLOCK_NS_PER_S, &pause));
	cr_expect_eq(pause, 100 * CLOCK_NS_PER_MS);
}
