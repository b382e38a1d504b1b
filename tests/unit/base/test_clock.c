#include "base/clock.h"

#include <criterion/criterion.h>
#include <limits.h>

Test(clock, does_not_go_back)
{
	uint64_t last = clock_now();
	for (int i = 0; i < 1000; i++) {
		uint64_t now = clock_now();
		cr_assert_geq(now, last);
		last = now;
	}
}

Test(clock, wall_is_after_2020)
{
	cr_assert_gt(clock_wall(), 1577836800ull * CLOCK_NS_PER_S);
}

Test(clock, past_deadline_leaves_no_time)
{
	cr_assert_eq(clock_ms_until(0), 0);
	cr_assert_eq(clock_ms_until(clock_now()), 0);
}

Test(clock, time_left_is_rounded_up)
{
	int ms = clock_ms_until(clock_deadline(1000 * CLOCK_NS_PER_S));
	cr_assert(ms > 900000 && ms <= 1000000, "%d", ms);
	uint64_t deadline;
	do { /* until it is asked in time */
		deadline = clock_deadline(CLOCK_NS_PER_MS / 2);
		ms = clock_ms_until(deadline);
	} while (clock_now() >= deadline);
	cr_assert_eq(ms, 1);
}

Test(clock, never_stays_never)
{
	cr_assert_eq(clock_deadline(UINT64_MAX), UINT64_MAX);
	cr_assert_eq(clock_ms_until(UINT64_MAX), INT_MAX);
}
