#include "format/tensor/dtype.h"

#include <criterion/criterion.h>

#include <errno.h>

Test(dtype, names_and_codes_agree)
{
	for (int code = 1; code < DTYPE_END; code++)
		cr_assert_eq(dtype_parse(dtype_name(code)), code, "%s", dtype_name(code));
}

Test(dtype, sizes_are_those_of_safetensors)
{
	static const struct {
		const char *name;
		unsigned size;
	} want[] = {
		{"BOOL", 1}, {"U8", 1},      {"I8", 1},          {"F8_E5M2", 1},     {"F8_E4M3", 1},
		{"I16", 2},  {"U16", 2},     {"F16", 2},         {"BF16", 2},        {"I32", 4},
		{"U32", 4},  {"F32", 4},     {"C64", 8},         {"F64", 8},         {"I64", 8},
		{"U64", 8},  {"F8_E8M0", 1}, {"F8_E4M3FNUZ", 1}, {"F8_E5M2FNUZ", 1},
	};
	cr_assert_eq(sizeof(want) / sizeof(want[0]), DTYPE_END - 1);
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		int code = dtype_parse(want[i].name);
		cr_assert_gt(code, 0, "%s", want[i].name);
		cr_assert_eq(dtype_size(code), want[i].size, "%s", want[i].name);
	}
}

Test(dtype, codes_outside_have_no_size_and_no_name)
{
	static const int outside[] = {0, DTYPE_END, DTYPE_END + 1, -1, 255, 1 << 30};
	for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
		cr_assert_eq(dtype_size(outside[i]), 0u);
		cr_assert_str_eq(dtype_name(outside[i]), "?");
	}
}

Test(dtype, unknown_names_are_refused)
{
	cr_assert_eq(dtype_parse(""), -EINVAL);
	cr_assert_eq(dtype_parse("?"), -EINVAL);
	cr_assert_eq(dtype_parse("bf16"), -EINVAL);
	cr_assert_eq(dtype_parse("BF16 "), -EINVAL);
	cr_assert_eq(dtype_parse("F8"), -EINVAL);
	cr_assert_eq(dtype_parse("F4 "), -EINVAL);
}

Test(dtype, types_below_a_byte_are_told_apart_from_unknown_ones)
{
	cr_assert_eq(dtype_parse("F4"), -EOPNOTSUPP);
	cr_assert_eq(dtype_parse("F6_E2M3"), -EOPNOTSUPP);
	cr_assert_eq(dtype_parse("F6_E3M2"), -EOPNOTSUPP);
}
