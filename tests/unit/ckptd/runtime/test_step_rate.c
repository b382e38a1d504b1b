#include "runtime/step_rate.h"

#include "base/clock.h"

#include <criterion/criterion.h>

#define MS CLOCK_NS_PER_MS

Test(pace, the_first_heartbeat_is_only_a_beginning)
{
	struct pace p = {0};
	pace_beat(&p, 1, 10, 100 * MS);
	cr_assert_eq(p.steps.count, 0u);
	pace_beat(&p, 1, 11, 107 * MS);
	cr_assert_eq(p.steps.count, 1u);
	cr_assert_eq(p.steps.sum_ns, 7 * MS);
	cr_assert_eq(p.recent_us[0], 7000u);
}

Test(pace, heartbeats_within_a_step_do_not_begin_it_anew)
{
	struct pace p = {0};
	pace_beat(&p, 1, 10, 100 * MS);
	pace_beat(&p, 1, 10, 103 * MS);
	pace_beat(&p, 1, 11, 107 * MS);
	cr_assert_eq(p.steps.sum_ns, 7 * MS);
}

Test(pace, of_steps_shorter_than_a_tick_the_mean_counts)
{
	struct pace p = {0};
	pace_beat(&p, 1, 10, 100 * MS);
	pace_beat(&p, 1, 30, 150 * MS);
	cr_assert_eq(p.steps.count, 20u);
	cr_assert_eq(p.steps.buckets[1], 20u); /* 2.5 ms each */
	cr_assert_eq(p.nrecent, 1u);
}

Test(pace, what_lies_between_epochs_is_no_step)
{
	struct pace p = {0};
	pace_beat(&p, 1, 10, 100 * MS);
	pace_beat(&p, 2, 11, 900 * MS);
	cr_assert_eq(p.steps.count, 0u);
	pace_beat(&p, 2, 12, 901 * MS);
	cr_assert_eq(p.steps.count, 1u);
}

Test(pace, a_step_that_goes_back_or_leaps_is_not_counted)
{
	struct pace p = {0};
	pace_beat(&p, 1, 10, 100 * MS);
	pace_beat(&p, 1, 5, 110 * MS);
	pace_beat(&p, 1, UINT64_MAX, 120 * MS);
	pace_beat(&p, 1, 7, 110 * MS);
	cr_assert_eq(p.steps.count, 0u);
}

Test(pace, the_median_is_of_the_recent_ones)
{
	struct pace p = {0};
	cr_assert_eq(pace_median_us(&p), 0u);
	const uint64_t at[] = {100, 107, 108, 112, 1112}; /* 7, 1, 4, 1000 */
	for (unsigned i = 0; i < 5; i++)
		pace_beat(&p, 1, 10 + i, at[i] * MS);
	cr_assert_eq(pace_median_us(&p), 4000u, "the lower of two");
	for (unsigned i = 0; i < PACE_RECENT; i++)
		pace_beat(&p, 1, 20 + i, (2000 + 3 * i) * MS);
	cr_assert_eq(pace_median_us(&p), 3000u);
}

Test(pace, the_ring_keeps_the_newest)
{
	struct pace p = {0};
	for (unsigned i = 0; i <= PACE_RECENT + 5; i++)
		pace_beat(&p, 1, i, (100 + i * (i + 1) / 2) * MS);
	cr_assert_eq(p.nrecent, (uint32_t)PACE_RECENT);
	cr_assert_eq(p.recent_us[(p.at + PACE_RECENT - 1) % PACE_RECENT], (PACE_RECENT + 5) * 1000u);
	cr_assert_eq(p.recent_us[p.at], 6 * 1000u);
}
