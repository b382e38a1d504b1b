#include "plan/plan_quantity.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>

Test(plan_quantity, amounts_as_people_write_them)
{
	static const struct {
		const char *text;
		double is;
	} sizes[] = {{"5.7TB", 5.7e12}, {"200GB/s", 200e9}, {"64GiB", 0x1p36}, {"1K", 1024}, {"7", 7}, {"3B/s", 3}},
	  times[] = {{"5y", 5 * 365.25 * 86400}, {"250ms", 0.25}, {"90", 90}, {"1.5h", 5400},
		     {"2w", 14 * 86400},         {"30m", 1800}};
	double v;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		cr_assert_eq(quantity_bytes(sizes[i].text, &v), 0, "%s", sizes[i].text);
		cr_expect_float_eq(v, sizes[i].is, 1e-6 * sizes[i].is, "%s", sizes[i].text);
	}
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		cr_assert_eq(quantity_time(times[i].text, &v), 0, "%s", times[i].text);
		cr_expect_float_eq(v, times[i].is, 1e-9 * times[i].is, "%s", times[i].text);
	}
}

Test(plan_quantity, what_is_no_amount_is_refused)
{
	static const char *const wrong[] = {"",      "x",  "-3GB", "0",   "3XB",   "nan",  "inf",
					    "1e999", " 3", "3 GB", "0x3", "3GB/h", "1e25", "1e-7"};
	double v = 42;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_expect_eq(quantity_bytes(wrong[i], &v), -EINVAL, "%s", wrong[i]);
		cr_expect_eq(quantity_time(wrong[i], &v), -EINVAL, "%s", wrong[i]);
	}
}

Test(plan_quantity, amounts_in_words)
{
	char text[QUANTITY_TEXT_MAX];
	cr_expect_str_eq(quantity_time_text(0.0071, text), "7.1 ms");
	cr_expect_str_eq(quantity_time_text(75, text), "75.0 s");
	cr_expect_str_eq(quantity_time_text(375, text), "6.2 min");
	cr_expect_str_eq(quantity_time_text(INFINITY, text), "never");
	cr_expect_str_eq(quantity_bytes_text(5.7e12, text), "5.7 TB");
	cr_expect_str_eq(quantity_bytes_text(12, text), "12 B");
}
