#include "base/doubles.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

enum { MOST = 130 };

static uint64_t next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return *seed >> 33;
}

/* Many that are equal, few, or none. */
static void expect_middle_of_sorted(const double *values, size_t n)
{
	double sorted[MOST], moved[MOST];
	memcpy(sorted, values, n * sizeof(*values));
	memcpy(moved, values, n * sizeof(*values));
	doubles_sort(sorted, n);
	struct doubles_middle m = doubles_middle(moved, n);
	cr_assert(m.low == sorted[(n - 1) / 2] && m.high == sorted[n / 2], "of %zu: %g and %g, not %g and %g", n, m.low,
		  m.high, sorted[(n - 1) / 2], sorted[n / 2]);
	doubles_sort(moved, n);
	cr_assert_eq(memcmp(moved, sorted, n * sizeof(*values)), 0, "of %zu: others than before", n);
}

Test(doubles, the_middle_is_that_of_the_sorted)
{
	uint64_t seed = 1;
	double values[MOST];
	for (size_t n = 1; n <= MOST; n++)
		for (uint64_t kinds = 1; kinds <= 1000; kinds *= 10) {
			for (size_t i = 0; i < n; i++)
				values[i] = (double)(next(&seed) % kinds) - (double)kinds / 3;
			expect_middle_of_sorted(values, n);
		}
}

Test(doubles, also_of_what_is_sorted_either_way)
{
	double values[MOST];
	for (size_t n = 1; n <= MOST; n++)
		for (int down = 0; down < 2; down++) {
			for (size_t i = 0; i < n; i++)
				values[i] = (double)(down ? n - i : i);
			expect_middle_of_sorted(values, n);
		}
}
