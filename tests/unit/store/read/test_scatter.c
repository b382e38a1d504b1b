#include "store/read/scatter.h"

#include "base/bytes.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed;

static uint64_t draw(uint64_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % below;
}

static struct region random_region(const struct shape *shape, uint64_t volume)
{
	if (draw(3) == 0) {
		uint64_t start = draw(volume);
		return region_flat(start, 1 + draw(volume - start));
	}
	struct region r = {.kind = REGION_BOX};
	for (uint32_t d = 0; d < shape->ndim; d++) {
		r.offset[d] = draw(shape->dim[d]);
		r.extent[d] = 1 + draw(shape->dim[d] - r.offset[d]);
	}
	return r;
}

/* The packed image of a region: each element is its index in the whole, plus one. */
static void fill(const struct shape *shape, const struct region *r, unsigned size, uint8_t *out)
{
	struct region whole = region_whole(shape);
	struct overlap o;
	struct region_run run;
	overlap_init(&o, shape, r, &whole);
	while (overlap_next(&o, &run))
		for (uint64_t i = 0; i < run.count; i++)
			for (unsigned b = 0; b < size; b++)
				out[(run.src + i) * size + b] = (uint8_t)((run.dst + i + 1) >> (8 * (b % 3)) ^ b);
}

/* Copies src to dst through windows of random length and compares with what dst must hold. */
static void check_pair(const struct shape *shape, const struct region *src, const struct region *dst, unsigned size)
{
	uint64_t nsrc = region_volume(shape, src), ndst = region_volume(shape, dst), copied = 0;
	uint8_t *image = malloc(nsrc * size), *got = calloc(ndst, size), *due = calloc(ndst, size);
	fill(shape, src, size, image);
	struct overlap o;
	struct region_run run;
	overlap_init(&o, shape, src, dst);
	while (overlap_next(&o, &run))
		memcpy(due + run.dst * size, image + run.src * size, run.count * size);
	overlap_init(&o, shape, src, dst);
	for (uint64_t from = 0, to; from < nsrc; from = to) {
		to = min_u64(nsrc, from + 1 + draw(nsrc));
		copied += scatter(&o, from, to, size, image + from * size, got);
	}
	cr_expect(!memcmp(got, due, ndst * size));
	cr_expect_eq(copied, overlap_volume(shape, src, dst) * size);
	free(due);
	free(got);
	free(image);
}

Test(scatter, random_pairs_through_random_windows)
{
	for (seed = 1; seed < 20000; seed++) {
		uint64_t volume, keep = seed;
		struct shape shape = {.ndim = (uint32_t)draw(5)};
		for (uint32_t d = 0; d < shape.ndim; d++)
			shape.dim[d] = 1 + draw(7);
		cr_assert_eq(shape_volume(&shape, &volume), 0);
		struct region src = random_region(&shape, volume), dst = random_region(&shape, volume);
		check_pair(&shape, &src, &dst, 1u << draw(4));
		seed = keep;
	}
}

Test(scatter, rows_of_every_width)
{
	seed = 7;
	for (uint64_t width = 1; width <= 70; width++) {
		struct shape shape = {2, {50, 96}};
		struct region columns = {.kind = REGION_BOX, .offset = {0, 13}, .extent = {50, width}};
		struct region rows = {.kind = REGION_BOX, .offset = {3, 0}, .extent = {40, 96}};
		check_pair(&shape, &rows, &columns, 1);
		check_pair(&shape, &columns, &rows, 1);
	}
}
