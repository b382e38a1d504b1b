#include "inspect/slice.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct shape cube = {3, {5, 4, 3}};
static struct err err;

Test(slice, a_scalar_has_no_dimension_to_cut)
{
	struct shape scalar = {0};
	struct slice s;
	cr_assert_eq(slice_parse(NULL, &scalar, &s, &err), 0);
	cr_assert_eq(slice_parse("0", &scalar, &s, &err), -EINVAL);
}

Test(slice, single_indices_drop_their_dimension)
{
	struct slice s;
	cr_assert_eq(slice_parse("-1, 1:3", &cube, &s, &err), 0, "%s", err.text);
	cr_assert_eq(s.shape.ndim, 2);
	cr_assert(s.shape.dim[0] == 2 && s.shape.dim[1] == 3);
	cr_assert(s.box.offset[0] == 4 && s.box.extent[0] == 1 && s.box.offset[1] == 1 && s.box.extent[1] == 2);
}

Test(slice, nonsense_is_refused)
{
	static const char *const bad[] = {"",    ",",       "a",  "1:2:3", "5",   "-6",  "0:6",
					  "3:2", "1,1,1,1", "1,", "0x1",   "--1", "1;2", "18446744073709551616"};
	struct slice s;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_lt(slice_parse(bad[i], &cube, &s, &err), 0, "\"%s\"", bad[i]);
}

Test(slice, a_step_is_refused_by_its_name)
{
	static const char *const bad[] = {"1:4:2", "::2", "0:5:1", ":, 0:4:-1", ":,:,::"};
	struct slice s;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_expect_eq(slice_parse(bad[i], &cube, &s, &err), -EINVAL, "\"%s\"", bad[i]);
		cr_expect(strstr(err.text, "has a step") && strstr(err.text, "1:9, not 1:9:2"), "%s", err.text);
	}
}
