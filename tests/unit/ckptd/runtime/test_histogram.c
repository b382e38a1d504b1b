#include "runtime/histogram.h"

#include "base/clock.h"

#include <criterion/criterion.h>

Test(histogram, the_bounds_grow_from_a_millisecond_to_eight_minutes)
{
	cr_assert_eq(histogram_bound_ns(0), CLOCK_NS_PER_MS);
	cr_assert_eq(histogram_bound_ns(1), 2500000u);
	cr_assert_eq(histogram_bound_ns(2), 5 * CLOCK_NS_PER_MS);
	cr_assert_eq(histogram_bound_ns(3), 10 * CLOCK_NS_PER_MS);
	cr_assert_eq(histogram_bound_ns(HISTOGRAM_BOUNDS - 1), 500 * CLOCK_NS_PER_S);
}

Test(histogram, a_bound_belongs_to_its_bucket)
{
	struct histogram h = {0};
	histogram_add(&h, CLOCK_NS_PER_MS, 1);
	histogram_add(&h, CLOCK_NS_PER_MS + 1, 2);
	histogram_add(&h, 501 * CLOCK_NS_PER_S, 1);
	cr_assert_eq(h.buckets[0], 1u);
	cr_assert_eq(h.buckets[1], 2u);
	cr_assert_eq(h.buckets[HISTOGRAM_BOUNDS], 1u);
	cr_assert_eq(h.count, 4u);
	cr_assert_eq(h.sum_ns, 3 * CLOCK_NS_PER_MS + 2 + 501 * CLOCK_NS_PER_S);
}

Test(histogram, a_quantile_lies_in_the_bucket_where_it_is_reached)
{
	struct histogram h = {0};
	cr_assert_eq(histogram_quantile_ns(&h, 0.5), 0u);
	histogram_add(&h, 7 * CLOCK_NS_PER_MS, 98);
	histogram_add(&h, CLOCK_NS_PER_S, 2);
	uint64_t median = histogram_quantile_ns(&h, 0.5), high = histogram_quantile_ns(&h, 0.99);
	cr_assert(median > 5 * CLOCK_NS_PER_MS && median <= 10 * CLOCK_NS_PER_MS, "%lu", (unsigned long)median);
	cr_assert(high > 500 * CLOCK_NS_PER_MS && high <= CLOCK_NS_PER_S, "%lu", (unsigned long)high);
	histogram_add(&h, 3600 * CLOCK_NS_PER_S, 1000);
	cr_assert_eq(histogram_quantile_ns(&h, 0.9), 500 * CLOCK_NS_PER_S);
}
