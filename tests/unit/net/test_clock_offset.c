#include "cluster/link/clock_offset.h"

#include <criterion/criterion.h>

#define DAY 86400000000000ull
#define WALL (20000 * DAY)

/* Asked at 1,000; the ways there and back take so long; the other clock is so far ahead. */
static struct net_clock measure(uint64_t there, uint64_t back, int64_t ahead)
{
	uint64_t theirs = WALL + there + (uint64_t)ahead; /* our time of day was WALL when it was asked */
	return clock_offset(1000, 1000 + there + back, WALL + there + back, theirs);
}

Test(clock_offset, over_equal_ways_it_is_exact)
{
	struct net_clock is = measure(300, 300, 0);
	cr_assert_eq(is.round_trip_ns, 600u);
	cr_assert_eq(is.ahead_ns, 0);
	cr_assert_eq(measure(5000, 5000, 77).ahead_ns, 77);
	cr_assert_eq(measure(5000, 5000, -(int64_t)DAY).ahead_ns, -(int64_t)DAY);
}

Test(clock_offset, over_unequal_ways_half_the_round_trip_is_the_most_that_it_is_wrong)
{
	for (uint64_t there = 0; there <= 1000000; there += 50000) {
		struct net_clock is = measure(there, 1000000 - there, 250);
		cr_assert_leq(is.ahead_ns - 250, (int64_t)is.round_trip_ns / 2);
		cr_assert_geq(is.ahead_ns - 250, -(int64_t)is.round_trip_ns / 2);
	}
	cr_assert_eq(measure(1000000, 0, 250).ahead_ns, 500250, "so wrong it can be");
}

Test(clock_offset, whatever_a_node_says_there_is_an_offset)
{
	cr_assert_eq(clock_offset(5, 5, WALL, 0).ahead_ns, -(int64_t)WALL);
	cr_assert_eq(clock_offset(5, 5, WALL, UINT64_MAX).ahead_ns, INT64_MAX);
	cr_assert_eq(clock_offset(5, 5, UINT64_MAX, 0).ahead_ns, -INT64_MAX, "INT64_MIN has no other sign");
	cr_assert_eq(clock_offset(0, UINT64_MAX, 9, 3).ahead_ns, 3, "our own clock may have jumped to 1970");
	cr_assert_eq(clock_offset(9, 5, WALL, WALL).round_trip_ns, 0u);
}
