#include "base/number.h"

#include <criterion/criterion.h>
#include <inttypes.h>

Test(number, digits_alone_are_one)
{
	static const struct {
		const char *text;
		uint64_t is;
	} good[] = {{"0", 0},
		    {"7", 7},
		    {"007", 7},
		    {"12345678901234567890", 12345678901234567890u},
		    {"18446744073709551615", UINT64_MAX}};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		uint64_t v = 1;
		cr_expect(number_parse(good[i].text, UINT64_MAX, &v), "%s", good[i].text);
		cr_expect_eq(v, good[i].is, "%s is %" PRIu64, good[i].text, v);
	}
}

Test(number, what_else_stands_there_is_none)
{
	static const char *const bad[] = {"",
					  " 7",
					  "7 ",
					  "+7",
					  "-7",
					  "-0",
					  "0x7",
					  "7x",
					  "7.0",
					  "1e3",
					  "seven",
					  "18446744073709551616",
					  "99999999999999999999999999"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint64_t v = 1;
		cr_expect_not(number_parse(bad[i], UINT64_MAX, &v), "\"%s\"", bad[i]);
		cr_expect_eq(v, 0, "\"%s\" leaves %" PRIu64, bad[i], v);
	}
}

Test(number, more_than_is_allowed_is_none)
{
	uint64_t v;
	cr_expect(number_parse("65535", 65535, &v));
	cr_expect_eq(v, 65535);
	cr_expect_not(number_parse("65536", 65535, &v));
	cr_expect_eq(v, 0);
	cr_expect(number_parse("0", 0, &v));
	cr_expect_not(number_parse("1", 0, &v));
}
