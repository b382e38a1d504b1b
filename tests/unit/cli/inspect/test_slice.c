#include "inspect/slice.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct shape cube = {3, {5, 4, 3}};
static struct err err;

/* The walk gives each element of the box once, in row-major order, in parts that are small enough. */
static void check_walk(const struct shape *shape, const struct region *box, uint64_t elements)
{
	struct slice_walk w;
	struct region part;
	uint64_t done = 0;
	slice_walk_start(&w, shape, box, elements);
	while (slice_walk_next(&w, &part)) {
		uint64_t n = region_volume(shape, &part);
		cr_assert(n && n <= elements, "%lu of %lu", n, elements);
		struct overlap o;
		struct region_run run;
		overlap_init(&o, shape, &part, box);
		uint64_t at = 0;
		while (overlap_next(&o, &run)) {
			cr_assert_eq(run.src, at);
			cr_assert_eq(run.dst, done + at);
			at += run.count;
		}
		cr_assert_eq(at, n);
		done += n;
	}
	cr_assert_eq(done, region_volume(shape, box));
}

Test(slice, the_walk_is_complete_and_in_order_at_every_size)
{
	static const char *const texts[] = {NULL, "1:4,:,1:", "2,1:3,0:2", ":,:,2", "0:1,0:1,0:1", "3:3"};
	for (size_t t = 0; t < sizeof(texts) / sizeof(texts[0]); t++) {
		struct slice s;
		cr_assert_eq(slice_parse(texts[t], &cube, &s, &err), 0, "%s", err.text);
		for (uint64_t n = 1; n <= 64; n++)
			check_walk(&cube, &s.box, n);
	}
}

Test(slice, a_scalar_is_one_part)
{
	struct shape scalar = {0};
	struct slice s;
	struct slice_walk w;
	struct region part;
	cr_assert_eq(slice_parse(NULL, &scalar, &s, &err), 0);
	slice_walk_start(&w, &scalar, &s.box, 1);
	cr_assert(slice_walk_next(&w, &part));
	cr_assert(!slice_walk_next(&w, &part));
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
