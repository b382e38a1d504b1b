#include "launcher/launch_budget.h"

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

Test(launch_budget, gives_back_what_was_taken_last)
{
	struct budget b = {.max = 2, .window_ns = 10 * CLOCK_NS_PER_S};
	cr_expect(budget_take(&b, 1 * CLOCK_NS_PER_S));
	cr_expect(budget_take(&b, 5 * CLOCK_NS_PER_S));
	cr_expect(budget_take(&b, 11 * CLOCK_NS_PER_S));
	cr_expect_not(budget_take(&b, 12 * CLOCK_NS_PER_S));
	budget_give_back(&b);
	cr_expect_eq(b.spent, 2);
	cr_expect(budget_take(&b, 12 * CLOCK_NS_PER_S));
	cr_expect_not(budget_take(&b, 13 * CLOCK_NS_PER_S), "only one was given back");
	struct budget whole = {.max = 1};
	cr_expect(budget_take(&whole, 1));
	budget_give_back(&whole);
	cr_expect(budget_take(&whole, 2));
	cr_expect_not(budget_take(&whole, 3));
}

Test(launch_budget, a_loss_covers_the_processes_that_were_there_and_have_not_come_back)
{
	struct loss l = {0};
	cr_expect_not(loss_covers(&l, 5, 0), "there was none yet");
	loss_begin(&l, 3, 100);
	cr_expect(loss_covers(&l, 5, 3));
	cr_expect(loss_covers(&l, 99, 0), "its rank has never entered one");
	cr_expect_not(loss_covers(&l, 5, 4), "it was at work again");
	cr_expect_not(loss_covers(&l, 101, 3), "it is a replacement");
}

/* Eight ranks that end each other, for ever: one of the budget for each time all were started. */
Test(launch_budget, a_job_that_crashes_again_and_again_uses_it_up)
{
	struct budget b = {.max = 10};
	struct loss l = {0};
	uint64_t started = 1, now = 2, rounds = 0;
	bool left = true;
	while (left && ++rounds < 100) {
		for (int rank = 0; rank < 8 && left; rank++, now++) {
			if (loss_covers(&l, started, 0))
				continue;
			loss_begin(&l, 0, now);
			left = budget_take(&b, now);
		}
		started = now++;
	}
	cr_expect_eq(rounds, 11);
	cr_expect_eq(b.spent, 10);
}

Test(launch_budget, a_loss_on_another_node_is_not_counted_here)
{
	struct loss l = {0};
	cr_expect_not(loss_is_elsewhere(&l, 3, 100), "nothing was counted");
	cr_expect(loss_covers(&l, 5, 3));
	cr_expect_not(loss_is_elsewhere(&l, 3, 110));
	cr_expect(loss_covers(&l, 5, 3));
	cr_expect_not(loss_covers(&l, 105, 3), "since the first word of it");
	/* The next one ends a process here before it is heard of. */
	loss_begin(&l, 4, 200);
	l.counted = true;
	cr_expect(loss_is_elsewhere(&l, 4, 201), "it is given back");
	cr_expect_not(loss_is_elsewhere(&l, 4, 202), "once");
	cr_expect(loss_covers(&l, 5, 4));
	/* One here, and all have been at work again before another one elsewhere. */
	loss_begin(&l, 5, 300);
	l.counted = true;
	cr_expect_not(loss_is_elsewhere(&l, 6, 400));
	cr_expect(loss_covers(&l, 350, 6));
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
