/* Random shapes and regions, small enough to be checked element by element. */
#ifndef TEST_RANDOM_REGION_H
#define TEST_RANDOM_REGION_H

#include "format/tensor/region.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL_VOLUME = 1024 };

static inline uint64_t random_below(uint64_t *seed, uint64_t n)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return n ? (*seed * 0x2545f4914f6cdd1dull >> 32) % n : 0;
}

/* 0 to 4 dimensions of 1 to 5, now and then a dimension of 0. */
static inline struct shape random_shape(uint64_t *seed)
{
	struct shape s = {.ndim = (uint32_t)random_below(seed, 5)};
	for (uint32_t d = 0; d < s.ndim; d++)
		s.dim[d] = random_below(seed, 24) ? 1 + random_below(seed, 5) : 0;
	return s;
}

/* A box or a flat range, empty ones among them; dimensions are often held in full, so that runs merge. */
static inline struct region random_region(uint64_t *seed, const struct shape *shape)
{
	uint64_t volume;
	shape_volume(shape, &volume);
	if (random_below(seed, 3) == 0) {
		uint64_t start = random_below(seed, volume + 1);
		return region_flat(start, random_below(seed, volume - start + 1));
	}
	struct region r = {.kind = REGION_BOX};
	for (uint32_t d = 0; d < shape->ndim; d++) {
		if (random_below(seed, 2)) {
			r.extent[d] = shape->dim[d];
			continue;
		}
		r.offset[d] = random_below(seed, shape->dim[d] + 1);
		r.extent[d] = random_below(seed, shape->dim[d] - r.offset[d] + 1);
	}
	return r;
}

/* The elements of a region in the order of its packing, found without the code under test. Returns how many. */
static inline uint64_t list_elements(const struct shape *shape, const struct region *r, uint64_t *elements)
{
	uint64_t volume = 1, n = 0;
	for (uint32_t d = 0; d < shape->ndim; d++)
		volume *= shape->dim[d];
	for (uint64_t i = 0; i < volume; i++) {
		bool in = true;
		if (r->kind == REGION_FLAT) {
			in = i >= r->start && i - r->start < r->count;
		} else {
			uint64_t rest = i;
			for (uint32_t d = shape->ndim; d-- > 0; rest /= shape->dim[d]) {
				uint64_t at = rest % shape->dim[d];
				in = in && at >= r->offset[d] && at - r->offset[d] < r->extent[d];
			}
		}
		if (in)
			elements[n++] = i;
	}
	return n;
}

/* Splits a region at random into disjoint ones that hold the same elements. Returns how many stand at `out`. */
static inline size_t split_region(uint64_t *seed, const struct shape *shape, struct region r, struct region *out,
				  size_t room)
{
	uint32_t d = shape->ndim ? (uint32_t)random_below(seed, shape->ndim) : 0;
	struct region a = r, b = r;
	uint64_t start, count;
	if (room < 2 || random_below(seed, 4) == 0) {
		*out = r;
		return 1;
	}
	if (region_contiguous(shape, &r, &start, &count) && random_below(seed, 2)) {
		uint64_t cut = random_below(seed, count + 1);
		a = region_flat(start, cut);
		b = region_flat(start + cut, count - cut);
	} else if (r.kind == REGION_BOX && shape->ndim) {
		a.extent[d] = random_below(seed, r.extent[d] + 1);
		b.offset[d] += a.extent[d];
		b.extent[d] -= a.extent[d];
	} else {
		*out = r;
		return 1;
	}
	size_t n = split_region(seed, shape, a, out, room / 2);
	return n + split_region(seed, shape, b, out + n, room - room / 2);
}

#endif
