#include "format/tensor/box_walk.h"

#include <criterion/criterion.h>

static const struct shape cube = {3, {5, 4, 3}}, scalar = {0};

/* The walk gives each element of the box once, in row-major order, in parts that are small enough. */
static void check_walk(const struct shape *shape, const struct region *box, uint64_t elements)
{
	struct box_walk w;
	struct region part;
	uint64_t done = 0;
	box_walk_start(&w, shape, box, elements);
	while (box_walk_next(&w, &part)) {
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

Test(box_walk, is_complete_and_in_order_at_every_size)
{
	static const struct region boxes[] = {
		{.kind = REGION_BOX, .extent = {5, 4, 3}},
		{.kind = REGION_BOX, .offset = {1, 0, 1}, .extent = {3, 4, 2}},
		{.kind = REGION_BOX, .offset = {2, 1, 0}, .extent = {1, 2, 2}},
		{.kind = REGION_BOX, .offset = {0, 0, 2}, .extent = {5, 4, 1}},
		{.kind = REGION_BOX, .extent = {1, 1, 1}},
		{.kind = REGION_BOX, .offset = {3, 0, 0}, .extent = {0, 4, 3}},
	};
	for (size_t i = 0; i < sizeof(boxes) / sizeof(boxes[0]); i++)
		for (uint64_t n = 1; n <= 64; n++)
			check_walk(&cube, &boxes[i], n);
}

Test(box_walk, a_scalar_is_one_part)
{
	struct region whole = region_whole(&scalar), part;
	struct box_walk w;
	box_walk_start(&w, &scalar, &whole, 1);
	cr_assert(box_walk_next(&w, &part));
	cr_assert(!box_walk_next(&w, &part));
}
