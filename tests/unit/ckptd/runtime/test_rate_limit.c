#include "runtime/rate_limit.h"

#include <criterion/criterion.h>

/* Limits of writes are tried on the simulated clock (tests/sim/test_throttle.c); here is what sleeps. */

static uint64_t spend(struct meter *m, struct bucket *job, uint64_t bytes, unsigned times)
{
	uint64_t begun = clock_now();
	while (times--)
		meter_wait(m, job, bytes);
	return clock_now() - begun;
}

Test(throttle, a_reader_pays_for_what_it_has_read)
{
	struct meter m;
	uint64_t none = 0;
	struct bucket job = {.rate = &none};
	meter_init(&m, 10 << 20);
	uint64_t ns = spend(&m, &job, 1 << 20, 5); /* half a second's worth, less the burst */
	cr_assert_geq(ns, 500 * CLOCK_NS_PER_MS - THROTTLE_BURST, "%lu ns", (unsigned long)ns);
}

Test(throttle, the_lower_of_two_limits_of_reading_counts)
{
	struct meter m;
	uint64_t rate = 10 << 20;
	struct bucket job = {.rate = &rate};
	meter_init(&m, 1ull << 40);
	uint64_t ns = spend(&m, &job, 1 << 20, 5);
	cr_assert_geq(ns, 500 * CLOCK_NS_PER_MS - THROTTLE_BURST, "%lu ns", (unsigned long)ns);
}

/* An hour's worth: the test would not end. */
Test(throttle, nobody_waits_once_the_meter_is_open_or_has_no_limit)
{
	struct meter m;
	uint64_t none = 0;
	struct bucket job = {.rate = &none};
	meter_init(&m, 1 << 16);
	meter_open(&m);
	spend(&m, &job, 3600ull << 16, 1);
	meter_init(&m, 1 << 16);
	meter_set(&m, 0);
	spend(&m, &job, 3600ull << 16, 1);
}
