#include "format/random_region.h"
#include "format/tensor/region.h"

#include <criterion/criterion.h>

#include <stdio.h>

enum { MANY = 65536 };

struct set {
	struct region *regions;
	const struct region **pointers;
	uint32_t *owners;
	size_t n;
};

static struct set set_new(size_t n)
{
	struct set s = {calloc(n, sizeof(struct region)), calloc(n, sizeof(void *)), calloc(n, sizeof(uint32_t)), n};
	for (size_t i = 0; i < n; i++) {
		s.pointers[i] = &s.regions[i];
		s.owners[i] = (uint32_t)i;
	}
	return s;
}

static void set_free(struct set *s)
{
	free(s->regions);
	free(s->pointers);
	free(s->owners);
}

static int cover(const struct shape *shape, const struct set *s, struct err *err)
{
	return region_cover(shape, "w", s->pointers, s->owners, s->n, err);
}

/* Counts how often each element is held. */
static int brute_force(const struct shape *shape, const struct set *s, uint64_t *hole)
{
	uint64_t elements[SMALL_VOLUME], volume;
	unsigned held[SMALL_VOLUME] = {0};
	shape_volume(shape, &volume);
	for (size_t i = 0; i < s->n; i++) {
		uint64_t n = list_elements(shape, &s->regions[i], elements);
		for (uint64_t k = 0; k < n; k++)
			if (held[elements[k]]++)
				return -EEXIST;
	}
	for (*hole = 0; *hole < volume; ++*hole)
		if (!held[*hole])
			return -ENODATA;
	return 0;
}

Test(cover, result_and_hole_match_brute_force)
{
	uint64_t seed = 1;
	unsigned results[3] = {0};
	for (int round = 0; round < 20000; round++) {
		struct shape shape = random_shape(&seed);
		struct set s = set_new(16);
		s.n = split_region(&seed, &shape, region_whole(&shape), s.regions, 15);
		if (random_below(&seed, 3) == 0)
			s.regions[s.n++] = random_region(&seed, &shape);
		else if (random_below(&seed, 2))
			s.regions[random_below(&seed, s.n)] = random_region(&seed, &shape);
		struct err err = {0};
		uint64_t hole = 0;
		int want = brute_force(&shape, &s, &hole), rc = cover(&shape, &s, &err);
		cr_assert_eq(rc, want, "%d, not %d: %s", rc, want, err.text);
		if (rc == -ENODATA) {
			char text[64];
			snprintf(text, sizeof(text), "no rank holds element %llu,", (unsigned long long)hole);
			cr_assert(strstr(err.text, text), "%s, not: %s", text, err.text);
		}
		results[rc == -EEXIST ? 0 : rc == -ENODATA ? 1 : 2]++;
		set_free(&s);
	}
	cr_assert(results[0] > 500 && results[1] > 500 && results[2] > 500, "%u %u %u", results[0], results[1],
		  results[2]);
}

Test(cover, a_hole_is_named_by_index_and_coordinate)
{
	struct shape shape = {.ndim = 2, .dim = {4, 6}};
	struct set s = set_new(2);
	s.regions[0] = (struct region){.kind = REGION_BOX, .extent = {4, 3}};
	s.regions[1] = (struct region){.kind = REGION_BOX, .offset = {0, 3}, .extent = {2, 3}};
	struct err err;
	cr_assert_eq(cover(&shape, &s, &err), -ENODATA);
	cr_assert(strstr(err.text, "tensor \"w\" [4, 6]: no rank holds element 15, at [2, 3]; 6 elements"), "%s",
		  err.text);
	set_free(&s);
}

Test(cover, an_overlap_names_both_owners)
{
	struct shape shape = {.ndim = 1, .dim = {10}};
	struct set s = set_new(3);
	s.regions[0] = region_flat(0, 5);
	s.regions[1] = region_flat(8, 2);
	s.regions[2] = (struct region){.kind = REGION_BOX, .offset = {4}, .extent = {4}};
	s.owners[0] = 7;
	s.owners[2] = 300;
	struct err err;
	cr_assert_eq(cover(&shape, &s, &err), -EEXIST);
	cr_assert(strstr(err.text, "rank 7's flat 0:5 and rank 300's [4:8] overlap"), "%s", err.text);
	set_free(&s);
}

Test(cover, a_region_outside_names_its_owner)
{
	struct shape shape = {.ndim = 1, .dim = {10}};
	struct set s = set_new(1);
	s.regions[0] = region_flat(5, 6);
	s.owners[0] = 9;
	struct err err;
	cr_assert_eq(cover(&shape, &s, &err), -ERANGE);
	cr_assert(strstr(err.text, "tensor \"w\", rank 9"), "%s", err.text);
	set_free(&s);
}

Test(cover, nothing_covers_only_what_is_empty)
{
	struct set s = set_new(1);
	s.n = 0;
	cr_assert_eq(cover(&(struct shape){.ndim = 2, .dim = {4, 0}}, &s, NULL), 0);
	cr_assert_eq(cover(&(struct shape){0}, &s, NULL), -ENODATA);
	set_free(&s);
}

/* 65536 shards of a tensor by rows, by columns, as blocks of a grid, and as flat ranges that fit no row. */
static void fill_many(struct set *s, struct shape *shape, int kind)
{
	*shape = (struct shape){.ndim = 2, .dim = {MANY * 3, MANY * 3}};
	for (uint64_t i = 0; i < MANY; i++) {
		uint64_t k = i * 40503 % MANY; /* out of order */
		struct region *r = &s->regions[i];
		r->kind = REGION_BOX;
		if (kind == 0)
			*r = (struct region){.kind = REGION_BOX, .offset = {3 * k}, .extent = {3, 3 * MANY}};
		else if (kind == 1)
			*r = (struct region){.kind = REGION_BOX, .offset = {0, 3 * k}, .extent = {3 * MANY, 3}};
		else if (kind == 2)
			*r = (struct region){
				.kind = REGION_BOX, .offset = {k / 256 * 768, k % 256 * 768}, .extent = {768, 768}};
		else
			*r = region_flat(k * 9 * MANY + (k ? 5 : 0), 9 * MANY + (k ? 0 : 5) - (k == MANY - 1 ? 5 : 0));
	}
}

Test(cover, many_rows_columns_blocks_and_ranges_are_quick)
{
	for (int kind = 0; kind < 4; kind++) {
		struct set s = set_new(MANY);
		struct shape shape;
		struct err err = {0};
		fill_many(&s, &shape, kind);
		cr_assert_eq(cover(&shape, &s, &err), 0, "%d: %s", kind, err.text);
		size_t lost = 12345;
		struct region r = s.regions[lost];
		s.regions[lost] = region_flat(0, 0);
		cr_assert_eq(cover(&shape, &s, &err), -ENODATA, "%d", kind);
		s.regions[lost] = r;
		s.regions[54321] = r;
		cr_assert_eq(cover(&shape, &s, &err), -EEXIST, "%d", kind);
		set_free(&s);
	}
}

/* A grid of 32 by 32 blocks: on each axis 32 bands of 32 blocks abreast, 15872 pairs. */
Test(cover, work_is_bounded_by_the_budget)
{
	struct shape shape = {.ndim = 2, .dim = {64, 64}};
	struct set s = set_new(1024);
	for (uint64_t i = 0; i < 1024; i++)
		s.regions[i] =
			(struct region){.kind = REGION_BOX, .offset = {i / 32 * 2, i % 32 * 2}, .extent = {2, 2}};
	uint64_t budget = 15871;
	size_t pair[2];
	cr_assert_eq(region_disjoint(&shape, s.pointers, s.n, &budget, pair), -E2BIG);
	cr_assert_eq(budget, 15871u);
	budget++;
	cr_assert_eq(region_disjoint(&shape, s.pointers, s.n, &budget, pair), 0);
	cr_assert_eq(budget, 0u);
	set_free(&s);
}
