#include "client/capture/spans.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 88172645463325252ull;

static uint64_t below(uint64_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % n;
}

enum { ELEMENT = 4, MEMORY = 1 << 20 };

static char memory[MEMORY], packed[1 << 18];

/* Where element `at` (coordinates in the global tensor) of the held box stands. */
static const char *address(const struct region *held, const struct place *place, uint32_t ndim, const uint64_t *at)
{
	const char *p = place->data;
	for (uint32_t d = 0; d < ndim; d++)
		p += (int64_t)(at[d] - held->offset[d]) * place->stride[d];
	return p;
}

static void coordinates(const struct shape *shape, uint64_t linear, uint64_t *at)
{
	for (uint32_t d = shape->ndim; d-- > 0;) {
		at[d] = linear % shape->dim[d];
		linear /= shape->dim[d];
	}
}

/* Element by element, from the definition: the captured region's elements in row-major order of the whole. */
static void check(const struct shape *shape, const struct region *held, const struct place *place,
		  const struct region *captured)
{
	struct span span;
	uint64_t n = region_volume(shape, captured);
	cr_assert_eq(span_of(shape, ELEMENT, held, place, captured, &span), 0);
	cr_assert_eq(span_bytes(&span), n * ELEMENT);
	span_pack(&span, packed, 0, n * ELEMENT);
	uint64_t volume, found = 0;
	shape_volume(shape, &volume);
	for (uint64_t i = 0; i < volume; i++) {
		struct region one = region_flat(i, 1);
		uint64_t at[NDIM_MAX];
		if (!region_overlaps(shape, captured, &one))
			continue;
		coordinates(shape, i, at);
		cr_assert_eq(memcmp(packed + found * ELEMENT, address(held, place, shape->ndim, at), ELEMENT), 0);
		found++;
	}
	cr_assert_eq(found, n);
}

static struct shape random_shape(void)
{
	struct shape shape = {.ndim = (uint32_t)below(5)};
	for (uint32_t d = 0; d < shape.ndim; d++)
		shape.dim[d] = 1 + below(6);
	return shape;
}

static struct region random_box(const struct shape *shape, const struct region *within)
{
	struct region box = {.kind = REGION_BOX};
	for (uint32_t d = 0; d < shape->ndim; d++) {
		box.offset[d] = within->offset[d] + below(within->extent[d]);
		box.extent[d] = 1 + below(within->offset[d] + within->extent[d] - box.offset[d]);
	}
	return box;
}

/* Padded, permuted and reversed dimensions. */
static struct place random_place(const struct region *held, uint32_t ndim)
{
	struct place place = {.data = memory + MEMORY / 2};
	uint32_t order[NDIM_MAX];
	int64_t step = ELEMENT;
	for (uint32_t d = 0; d < ndim; d++)
		order[d] = d;
	for (uint32_t d = ndim; d > 1 && below(2); d--) {
		uint32_t k = (uint32_t)below(d), swap = order[d - 1];
		order[d - 1] = order[k];
		order[k] = swap;
	}
	for (uint32_t i = ndim; i-- > 0;) {
		uint32_t d = order[i];
		place.stride[d] = below(5) ? step : -step;
		step *= (int64_t)held->extent[d];
		step += below(3) ? 0 : ELEMENT * (int64_t)below(4);
	}
	return place;
}

Test(spans, boxes_in_boxes_of_strided_memory)
{
	for (size_t i = 0; i < sizeof(memory); i++)
		memory[i] = (char)below(256);
	for (int round = 0; round < 3000; round++) {
		struct shape shape = random_shape();
		struct region whole = region_whole(&shape), held = random_box(&shape, &whole);
		struct place place = random_place(&held, shape.ndim);
		struct region captured = below(2) ? held : random_box(&shape, &held);
		check(&shape, &held, &place, &captured);
	}
}

Test(spans, ranges_of_contiguous_pieces_in_any_memory)
{
	for (size_t i = 0; i < sizeof(memory); i++)
		memory[i] = (char)below(256);
	for (int round = 0; round < 3000; round++) {
		struct shape shape = random_shape();
		struct region held = region_whole(&shape);
		uint64_t from, count;
		/* Any rows of the outermost dimension: still one range. */
		if (shape.ndim) {
			held.offset[0] = below(shape.dim[0]);
			held.extent[0] = 1 + below(shape.dim[0] - held.offset[0]);
		}
		cr_assert(region_contiguous(&shape, &held, &from, &count));
		struct place place = random_place(&held, shape.ndim);
		uint64_t start = from + below(count);
		struct region captured = region_flat(start, 1 + below(from + count - start));
		check(&shape, &held, &place, &captured);
	}
}

Test(spans, ranges_of_ranges)
{
	struct shape shape = {.ndim = 2, .dim = {10, 7}};
	struct region held = region_flat(13, 40), captured = region_flat(20, 5),
		      row = {REGION_BOX, {3, 0}, {2, 7}, 0, 0};
	struct place place = {.data = memory};
	struct span span;
	cr_assert_eq(span_of(&shape, ELEMENT, &held, &place, &captured, &span), 0);
	cr_assert_eq(span.memory, memory + 7 * ELEMENT);
	cr_assert_eq(span_bytes(&span), 5 * ELEMENT);
	cr_assert_eq(span_of(&shape, ELEMENT, &held, &place, &row, &span), 0, "rows are a range, too");
	cr_assert_eq(span.memory, memory + (21 - 13) * ELEMENT);
}

Test(spans, packed_pieces_are_one_row)
{
	struct shape shape = {.ndim = 3, .dim = {4, 5, 6}};
	struct region whole = region_whole(&shape);
	struct place place = {.data = memory};
	struct span span;
	place_pack(&whole, 3, ELEMENT, place.stride);
	cr_assert_eq(span_of(&shape, ELEMENT, &whole, &place, &whole, &span), 0);
	cr_assert_eq(span.ndim, 0);
	cr_assert_eq(span.row_bytes, 120 * ELEMENT);
}

Test(spans, what_does_not_lie_within_is_refused)
{
	struct shape shape = {.ndim = 2, .dim = {8, 8}};
	struct region left = {REGION_BOX, {0, 0}, {8, 4}, 0, 0}, right = {REGION_BOX, {0, 4}, {8, 4}, 0, 0};
	struct region range = region_flat(0, 4), beyond = region_flat(60, 4), rows = {REGION_BOX, {0, 0}, {4, 8}, 0, 0};
	struct place place = {.data = memory};
	struct span span;
	place_pack(&left, 2, ELEMENT, place.stride);
	cr_assert_eq(span_of(&shape, ELEMENT, &left, &place, &right, &span), -EINVAL);
	cr_assert_eq(span_of(&shape, ELEMENT, &left, &place, &range, &span), -EINVAL, "a range of columns");
	cr_assert_eq(span_of(&shape, ELEMENT, &rows, &place, &beyond, &span), -EINVAL);
	cr_assert_eq(span_of(&shape, ELEMENT, &range, &place, &rows, &span), -EINVAL);
}
