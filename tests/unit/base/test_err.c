#include "base/err.h"

#include <criterion/criterion.h>
#include <string.h>

Test(err, set_returns_its_code_and_keeps_the_text)
{
	struct err err;
	cr_assert_eq(err_set(&err, -ENOSPC, "file %s: %d", "a", 7), -ENOSPC);
	cr_assert_str_eq(err.text, "file a: 7");
}

Test(err, null_is_allowed)
{
	cr_assert_eq(err_set(NULL, -EIO, "x"), -EIO);
	cr_assert_eq(err_prefix(NULL, -EIO, "x"), -EIO);
}

Test(err, prefix_stands_before_the_text)
{
	struct err err;
	err_set(&err, -EIO, "no");
	cr_assert_eq(err_prefix(&err, -EIO, "rank %d", 3), -EIO);
	cr_assert_str_eq(err.text, "rank 3: no");
}

Test(err, long_text_ends_in_dots)
{
	struct err err;
	err_set(&err, -EIO, "%1000s", "x");
	cr_assert_eq(strlen(err.text), ERR_TEXT_MAX - 1);
	cr_assert_str_eq(err.text + ERR_TEXT_MAX - 4, "...");
	err_prefix(&err, -EIO, "%1000s", "y");
	cr_assert_eq(strlen(err.text), ERR_TEXT_MAX - 1);
	cr_assert_str_eq(err.text + ERR_TEXT_MAX - 4, "...");
}

Test(err, name_takes_either_sign)
{
	cr_assert_str_eq(err_name(-EIO), "Input/output error");
	cr_assert_str_eq(err_name(EIO), "Input/output error");
	cr_assert_str_eq(err_name(-100000), "unknown error");
}
