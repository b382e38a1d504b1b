#include "inspect/difference.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>

static uint64_t twice(const void *arg, uint64_t at)
{
	(void)arg;
	return 2 * at + 1;
}

Test(difference, whole_numbers_of_64_bits_are_exact_where_doubles_are_not)
{
	int64_t a[] = {INT64_MAX, INT64_MIN, 9007199254740993}, b[] = {INT64_MAX - 1, INT64_MIN, 9007199254740992};
	uint64_t c[] = {UINT64_MAX, 0}, e[] = {UINT64_MAX - 3, 0};
	struct difference d;
	difference_of(DTYPE_I64, a, b, 3, &d);
	cr_assert_eq(d.elements, 2);
	cr_assert_float_eq(d.abs.value, 1, 0);
	difference_of(DTYPE_U64, c, e, 2, &d);
	cr_assert_float_eq(d.abs.value, 3, 0);
	int64_t far[] = {INT64_MIN}, off[] = {INT64_MAX};
	difference_of(DTYPE_I64, far, off, 1, &d);
	cr_assert_float_eq(d.abs.value, 18446744073709551615.0, 0);
	cr_assert_float_eq(d.rel.value, 2, 1e-12);
}

Test(difference, what_overflows_a_double_is_the_largest_one)
{
	double a[] = {DBL_MAX}, b[] = {-DBL_MAX};
	struct difference d;
	difference_of(DTYPE_F64, a, b, 1, &d);
	cr_assert_float_eq(d.abs.value, DBL_MAX, 0);
	cr_assert_float_eq(d.rel.value, 2, 0);
}

Test(difference, complex_numbers_by_their_distance)
{
	float a[] = {1, 1, 0, 0}, b[] = {1, 1, 3, 4}, c[] = {NAN, 0, 0, INFINITY};
	struct difference d;
	difference_of(DTYPE_C64, a, b, 2, &d);
	cr_assert(d.elements == 1 && d.abs.at == 1);
	cr_assert_float_eq(d.abs.value, 5, 1e-12);
	difference_of(DTYPE_C64, a, c, 2, &d);
	cr_assert(d.nan_b == 1 && d.inf_b == 1 && d.odd && d.odd_at == 0 && !d.abs.known);
}

Test(difference, every_half_is_what_the_compiler_says)
{
	for (uint32_t bits = 0; bits < 65536; bits++) {
		uint16_t h = (uint16_t)bits, zero = 0;
		struct difference d;
		_Float16 value;
		__builtin_memcpy(&value, &h, sizeof(value));
		difference_of(DTYPE_F16, &zero, &h, 1, &d);
		if (!bits)
			continue;
		cr_assert_eq(d.elements, 1);
		if (isnan((double)value) || isinf((double)value))
			cr_assert_eq(d.nan_b + d.inf_b, 1);
		else
			cr_assert_float_eq(d.abs.value, fabs((double)value), 0);
	}
}

Test(difference, parts_add_up_at_their_places)
{
	float a[] = {1, 2, 3, 4}, b[] = {1, 5, 3, 4.5f}, c[] = {9, 2, 3, NAN};
	struct difference total = {0}, part;
	difference_of(DTYPE_F32, a, b, 4, &part);
	difference_add(&total, &part, twice, NULL);
	cr_assert(total.elements == 2 && total.first == 3 && total.abs.at == 3 && total.abs.value == 3);
	difference_of(DTYPE_F32, a, c, 4, &part);
	difference_add(&total, &part, twice, NULL);
	cr_assert(total.elements == 4 && total.first == 1 && total.abs.at == 1 && total.abs.value == 8);
	cr_assert(total.odd && total.odd_at == 7 && total.nan_b == 1);
	difference_of(DTYPE_F32, a, a, 4, &part);
	difference_add(&total, &part, twice, NULL);
	cr_assert_eq(total.elements, 4);
}
