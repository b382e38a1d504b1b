/* Runs that together are a region, out of pieces that overlap: each element once, and what is lacking is counted. */
#include "restore/piece_walk.h"

#include <criterion/criterion.h>
#include <string.h>

enum { ROWS = 6, COLUMNS = 10, ALL = ROWS * COLUMNS };

static const struct shape shape = {.ndim = 2, .dim = {ROWS, COLUMNS}};
static struct region regions[8];
static struct walk_source sources[8];
static size_t n;
static unsigned seen[ALL];
static uint32_t from[ALL];
static const struct region *wanted;

static struct region box(uint64_t row, uint64_t rows, uint64_t column, uint64_t columns)
{
	return (struct region){.kind = REGION_BOX, .offset = {row, column}, .extent = {rows, columns}};
}

static void add(struct region region)
{
	regions[n] = region;
	sources[n] = (struct walk_source){.region = &regions[n], .part = (uint32_t)n};
	n++;
}

/* By its number in the whole: the element of the region that has this place in its packing. */
static uint64_t index_of(const struct region *region, uint64_t place)
{
	uint64_t i = 0;
	while (region_rank(&shape, region, i + 1) <= place)
		i++;
	return i;
}

static void take(void *arg, const struct walk_source *source, const struct region_run *run)
{
	cr_assert_null(arg);
	for (uint64_t i = 0; i < run->count; i++) {
		uint64_t element = index_of(wanted, run->dst + i);
		cr_expect_eq(element, index_of(source->region, run->src + i));
		seen[element]++;
		from[element] = source->part;
	}
}

static uint64_t walk(const struct region *region)
{
	wanted = region;
	memset(seen, 0, sizeof(seen));
	return piece_walk(&shape, region, region_volume(&shape, region), sources, n, take, NULL);
}

static void expect_once(const struct region *region, uint64_t lacking)
{
	uint64_t none = 0;
	for (uint64_t i = 0; i < ALL; i++) {
		uint64_t in = region_rank(&shape, region, i + 1) - region_rank(&shape, region, i);
		cr_expect_leq(seen[i], in, "element %lu", (unsigned long)i);
		none += in - seen[i];
	}
	cr_expect_eq(none, lacking);
}

Test(piece_walk, takes_each_element_once)
{
	struct region whole = region_whole(&shape);
	n = 0;
	add(box(0, ROWS, 3, 4));
	add(region_flat(20, 25));
	add(whole);
	cr_expect_eq(walk(&whole), 0);
	expect_once(&whole, 0);
	cr_expect_eq(from[0], 2);
}

Test(piece_walk, of_a_box_that_no_piece_is)
{
	struct region column = box(1, 4, 2, 3);
	n = 0;
	add(region_flat(0, 33));
	add(region_flat(55, 5));
	add(box(3, 3, 0, 10));
	cr_expect_eq(walk(&column), 0);
	expect_once(&column, 0);
}

/* Four pieces have as many elements as the whole has. */
Test(piece_walk, counts_a_hole_that_what_is_there_twice_would_fill)
{
	struct region whole = region_whole(&shape);
	n = 0;
	for (int twice = 0; twice < 2; twice++) {
		add(region_flat(0, 15));
		add(box(2, 1, 0, 10));
	}
	cr_expect_eq(walk(&whole), ALL - 25);
	expect_once(&whole, ALL - 25);
}

Test(piece_walk, of_nothing_lacks_nothing)
{
	struct region none = region_flat(7, 0);
	n = 0;
	add(region_flat(0, 15));
	cr_expect_eq(walk(&none), 0);
	n = 0;
	none = region_flat(7, 3);
	cr_expect_eq(walk(&none), 3);
}
