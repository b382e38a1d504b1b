#include "shared/gpu_quantile.h"

#include <criterion/criterion.h>

/* 1 to n, in another order. */
static void scatter(double *values, int n)
{
	for (int i = 0; i < n; i++)
		values[i] = 1 + i * 7 % n;
}

Test(gpu_quantile, is_the_smallest_value_that_the_share_does_not_exceed)
{
	static const struct {
		int n;
		double q, due;
	} cases[] = {{20, 0.5, 10},    {20, 0.95, 19},    {20, 1, 20},       {20, 0.05, 1},      {20, 0.051, 2},
		     {20, 0, 1},       {9, 0.5, 5},       {9, 0.95, 9},      {1, 0.5, 1},        {1, 0.95, 1},
		     {1000, 0.5, 500}, {1000, 0.95, 950}, {1000, 0.99, 990}, {1000, 0.999, 999}, {3, 0.34, 2},
		     {3, 0.33, 1},     {11, 0.5, 6}};
	double values[1000];
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		scatter(values, cases[i].n);
		double is = gpu_quantile(values, (size_t)cases[i].n, cases[i].q);
		cr_expect_eq(is, cases[i].due, "share %g of %d: %g, not %g", cases[i].q, cases[i].n, is, cases[i].due);
	}
}

Test(gpu_quantile, does_not_depend_on_the_order)
{
	double rising[] = {0.25, 0.5, 1, 64}, falling[] = {64, 1, 0.5, 0.25}, equal[] = {3, 3, 3, 3};
	cr_expect_eq(gpu_quantile(rising, 4, 0.5), 0.5);
	cr_expect_eq(gpu_quantile(falling, 4, 0.5), 0.5);
	cr_expect_eq(gpu_quantile(falling, 4, 0.95), 64);
	cr_expect_eq(gpu_quantile(equal, 4, 0.95), 3);
}
