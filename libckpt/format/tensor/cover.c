#include "format/tensor/region.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

/* What a region spans on one axis: axis 0 is the row-major order, axis d + 1 is dimension d. Two regions that have an
 * element in common have common ground on every axis. */
struct span {
	uint64_t first, last;
	size_t index;
};

static void coordinates(const struct shape *shape, uint64_t index, uint64_t *at)
{
	for (uint32_t d = shape->ndim; d-- > 0;) {
		at[d] = index % shape->dim[d];
		index /= shape->dim[d];
	}
}

static uint64_t region_last(const struct shape *shape, const struct region *r)
{
	if (r->kind == REGION_FLAT)
		return r->start + r->count - 1;
	uint64_t index = 0;
	for (uint32_t d = 0; d < shape->ndim; d++)
		index = index * shape->dim[d] + r->offset[d] + r->extent[d] - 1;
	return index;
}

/* Of a flat range in dimension `dim`: exact up to the first dimension in which its ends differ, all of it beyond. */
static void flat_span(const struct shape *shape, const struct region *r, uint32_t dim, struct span *s)
{
	uint64_t a[NDIM_MAX], b[NDIM_MAX];
	coordinates(shape, r->start, a);
	coordinates(shape, r->start + r->count - 1, b);
	bool same = true;
	for (uint32_t d = 0; d < dim; d++)
		same = same && a[d] == b[d];
	s->first = same ? a[dim] : 0;
	s->last = same ? b[dim] : shape->dim[dim] - 1;
}

/* The region is not empty. */
static struct span span_of(const struct shape *shape, const struct region *r, uint32_t axis, size_t index)
{
	struct span s = {.index = index};
	if (axis == 0) {
		s.first = region_first(shape, r);
		s.last = region_last(shape, r);
	} else if (r->kind == REGION_FLAT) {
		flat_span(shape, r, axis - 1, &s);
	} else {
		s.first = r->offset[axis - 1];
		s.last = s.first + r->extent[axis - 1] - 1;
	}
	return s;
}

static int by_first(const void *a, const void *b)
{
	const struct span *x = a, *y = b;
	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;
	return *x < *y ? -1 : *x > *y;
}

/* Spans of all regions that are not empty, by first. Returns how many. */
static size_t fill(const struct shape *shape, const struct region *const *regions, size_t n, uint32_t axis,
		   struct span *spans)
{
	size_t m = 0;
	for (size_t i = 0; i < n; i++)
		if (region_volume(shape, regions[i]))
			spans[m++] = span_of(shape, regions[i], axis, i);
	qsort(spans, m, sizeof(*spans), by_first);
	return m;
}

/* How many pairs of spans have common ground: each span, when it begins, with those that have not ended. */
static uint64_t count_pairs(const struct span *spans, size_t m, uint64_t *ends)
{
	for (size_t i = 0; i < m; i++)
		ends[i] = spans[i].last;
	qsort(ends, m, sizeof(*ends), by_value);
	uint64_t pairs = 0;
	for (size_t i = 0, ended = 0; i < m; i++) {
		while (ends[ended] < spans[i].first)
			ended++;
		pairs += i - ended;
	}
	return pairs;
}

/* Compares each region with those abreast of it. `spans` is compacted in place: [0, active) have not ended. */
static int sweep(const struct shape *shape, const struct region *const *regions, struct span *spans, size_t m,
		 size_t pair[2])
{
	size_t active = 0;
	for (size_t i = 0; i < m; i++) {
		struct span s = spans[i];
		size_t kept = 0;
		for (size_t k = 0; k < active; k++) {
			if (spans[k].last < s.first)
				continue;
			if (region_overlaps(shape, regions[spans[k].index], regions[s.index])) {
				pair[0] = spans[k].index;
				pair[1] = s.index;
				return 1;
			}
			spans[kept++] = spans[k];
		}
		spans[kept] = s;
		active = kept + 1;
	}
	return 0;
}

int region_disjoint(const struct shape *shape, const struct region *const *regions, size_t n, uint64_t *budget,
		    size_t pair[2])
{
	if (n < 2)
		return 0;
	AUTO_FREE struct span *spans = calloc(n, sizeof(*spans));
	AUTO_FREE uint64_t *ends = calloc(n, sizeof(*ends));
	if (!spans || !ends)
		return -ENOMEM;
	uint64_t fewest = UINT64_MAX;
	uint32_t best = 0, axis = 0;
	size_t m = 0;
	/* A few neighbours each is as good as it gets: row shards and flat ranges never look at another axis. */
	for (; axis <= shape->ndim && fewest > 4 * (uint64_t)n; axis++) {
		m = fill(shape, regions, n, axis, spans);
		uint64_t pairs = count_pairs(spans, m, ends);
		if (pairs < fewest) {
			fewest = pairs;
			best = axis;
		}
	}
	if (fewest > *budget)
		return -E2BIG;
	*budget -= fewest;
	if (best + 1 != axis)
		m = fill(shape, regions, n, best, spans);
	return sweep(shape, regions, spans, m, pair);
}

/* Elements below `index` that no region holds. The regions are disjoint. */
static uint64_t missing_below(const struct shape *shape, const struct region *const *regions, size_t n, uint64_t index)
{
	uint64_t missing = index;
	for (size_t i = 0; i < n; i++)
		missing -= region_rank(shape, regions[i], index);
	return missing;
}

/* The first element that no region holds; there is one. The number missing below x only grows with x: bisect. */
static uint64_t first_hole(const struct shape *shape, const struct region *const *regions, size_t n, uint64_t volume)
{
	uint64_t none = 0, some = volume;
	while (some - none > 1) {
		uint64_t middle = none + (some - none) / 2;
		if (missing_below(shape, regions, n, middle))
			some = middle;
		else
			none = middle;
	}
	return none;
}

enum { TEXT_MAX = 96 };

static int overlap_error(const struct shape *shape, const char *what, const struct region *a, uint32_t a_owner,
			 const struct region *b, uint32_t b_owner, struct err *err)
{
	char whole[TEXT_MAX], a_text[TEXT_MAX], b_text[TEXT_MAX];
	return err_set(
		err, -EEXIST,
		"tensor \"%.150s\" %s: rank %u's %s and rank %u's %s overlap; each element must be held once, or "
		"by replicas of one group",
		what, shape_text(shape, whole, sizeof(whole)), a_owner, region_text(shape, a, a_text, sizeof(a_text)),
		b_owner, region_text(shape, b, b_text, sizeof(b_text)));
}

static int hole_error(const struct shape *shape, const char *what, uint64_t index, uint64_t missing, struct err *err)
{
	char whole[TEXT_MAX], text[TEXT_MAX];
	struct shape at = {.ndim = shape->ndim};
	coordinates(shape, index, at.dim);
	return err_set(
		err, -ENODATA,
		"tensor \"%.150s\" %s: no rank holds element %llu, at %s; %llu elements are missing: register them "
		"on some rank",
		what, shape_text(shape, whole, sizeof(whole)), (unsigned long long)index,
		shape_text(&at, text, sizeof(text)), (unsigned long long)missing);
}

static int check_all(const struct shape *shape, const char *what, const struct region *const *regions,
		     const uint32_t *owners, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		int rc = region_check(shape, regions[i], err);
		if (rc < 0)
			return err_prefix(err, rc, "tensor \"%.150s\", rank %u", what, owners[i]);
	}
	return 0;
}

int region_cover(const struct shape *shape, const char *what, const struct region *const *regions,
		 const uint32_t *owners, size_t n, struct err *err)
{
	int rc = check_all(shape, what, regions, owners, n, err);
	if (rc < 0)
		return rc;
	size_t pair[2];
	uint64_t budget = REGION_BUDGET, volume = 0;
	rc = region_disjoint(shape, regions, n, &budget, pair);
	if (rc > 0)
		return overlap_error(shape, what, regions[pair[0]], owners[pair[0]], regions[pair[1]], owners[pair[1]],
				     err);
	if (rc == -E2BIG)
		return err_set(err, rc,
			       "tensor \"%.150s\": its %zu pieces are too interleaved to check; register larger ones",
			       what, n);
	if (rc < 0)
		return err_set(err, rc, "tensor \"%.150s\": no memory to check its %zu pieces", what, n);
	rc = shape_volume(shape, &volume);
	if (rc < 0)
		return err_set(err, rc, "tensor \"%.150s\": the shape is too large", what);
	uint64_t missing = missing_below(shape, regions, n, volume);
	return missing ? hole_error(shape, what, first_hole(shape, regions, n, volume), missing, err) : 0;
}
