#include "job/apart.h"

#include "base/clock.h"

#include <criterion/criterion.h>

#define S CLOCK_NS_PER_S

Test(apart, ranks_have_as_long_again_and_half_the_time_in_which_a_node_is_missed)
{
	cr_expect_eq(apart_until(100 * S, 4 * S, 100 * S), 102 * S, "it has just been noticed");
	cr_expect_eq(apart_until(100 * S, 4 * S, 103 * S), 108 * S);
}

Test(apart, however_long_it_lasts_they_have_no_longer)
{
	cr_expect_eq(apart_until(100 * S, 4 * S, 104 * S), 110 * S);
	cr_expect_eq(apart_until(100 * S, 4 * S, 1000 * S), 1006 * S);
	cr_expect_eq(apart_until(200 * S, 4 * S, 100 * S), 102 * S, "a clock that goes back");
}
