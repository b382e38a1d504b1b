/* The search among the pieces of one tensor: an interval index along one axis. */
#include "base/bytes.h"
#include "store/read/saved.h"

#include <stdlib.h>
#include <string.h>

struct interval {
	uint64_t low, high;
};

/* Row-major range that a box touches, from its first element to its last. */
static struct interval box_order(const struct shape *shape, const struct region *r)
{
	uint64_t stride = 1;
	struct interval in = {0, 1};
	for (uint32_t d = shape->ndim; d-- > 0; stride *= shape->dim[d]) {
		in.low += r->offset[d] * stride;
		in.high += (r->offset[d] + r->extent[d] - 1) * stride;
	}
	return in;
}

/* What a flat range touches in dimension `axis`: all of it, once the first and last element differ further out. */
static struct interval flat_dim(const struct shape *shape, const struct region *r, uint32_t axis)
{
	uint64_t first = r->start, last = r->start + r->count - 1, stride = 1;
	for (uint32_t d = axis + 1; d < shape->ndim; d++)
		stride *= shape->dim[d];
	first /= stride;
	last /= stride;
	uint64_t dim = shape->dim[axis];
	if (first / dim != last / dim)
		return (struct interval){0, dim};
	return (struct interval){first % dim, last % dim + 1};
}

/* The region is not empty. */
static struct interval project(const struct shape *shape, const struct region *r, uint32_t axis)
{
	if (r->kind == REGION_FLAT)
		return axis == shape->ndim ? (struct interval){r->start, r->start + r->count}
					   : flat_dim(shape, r, axis);
	return axis == shape->ndim ? box_order(shape, r)
				   : (struct interval){r->offset[axis], r->offset[axis] + r->extent[axis]};
}

/* The axis on which the pieces are narrowest on average. Row-major order wins a tie: flat ranges are narrow there only. */
static uint32_t narrowest(const struct saved_axis *a)
{
	uint64_t volume = 0;
	shape_volume(&a->shape, &volume);
	double best = 0;
	uint32_t axis = a->shape.ndim;
	for (uint32_t i = 0; i <= a->shape.ndim; i++) {
		uint32_t candidate = a->shape.ndim - i;
		double width = 0, all = (double)(candidate == a->shape.ndim ? volume : a->shape.dim[candidate]);
		for (size_t p = 0; p < a->n; p++) {
			struct interval in = project(&a->shape, saved_region(a->saved, a->spans[p].piece), candidate);
			width += (double)(in.high - in.low) / all;
		}
		if (i == 0 || width < best * 0.999) {
			best = width;
			axis = candidate;
		}
	}
	return axis;
}

static int by_low(const void *a, const void *b)
{
	const struct saved_span *x = a, *y = b;
	return x->low < y->low ? -1 : x->low > y->low;
}

int saved_axis_make(const struct saved *saved, const struct saved_tensor *tensor, struct saved_axis *axis)
{
	*axis = (struct saved_axis){.saved = saved, .shape = tensor->meta->shape};
	axis->spans = malloc((tensor->npieces + 1) * sizeof(*axis->spans));
	if (!axis->spans)
		return -ENOMEM;
	for (uint64_t i = 0; i < tensor->npieces; i++) {
		struct saved_piece piece = saved->pieces[tensor->first_piece + i];
		if (region_volume(&axis->shape, saved_region(saved, piece)))
			axis->spans[axis->n++] = (struct saved_span){.piece = piece};
	}
	axis->axis = narrowest(axis);
	for (size_t i = 0; i < axis->n; i++) {
		struct interval in = project(&axis->shape, saved_region(saved, axis->spans[i].piece), axis->axis);
		axis->spans[i].low = in.low;
		axis->spans[i].high = in.high;
	}
	qsort(axis->spans, axis->n, sizeof(*axis->spans), by_low);
	uint64_t reach = 0;
	for (size_t i = 0; i < axis->n; i++)
		axis->spans[i].reach = reach = max_u64(reach, axis->spans[i].high);
	return 0;
}

void saved_axis_free(struct saved_axis *axis)
{
	free(axis->spans);
	*axis = (struct saved_axis){0};
}

static int hits_add(struct saved_hits *hits, struct saved_hit hit)
{
	if (hits->n == hits->cap) {
		size_t cap = hits->cap ? hits->cap * 2 : 64;
		struct saved_hit *grown = realloc(hits->hits, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		hits->hits = grown;
		hits->cap = cap;
	}
	hits->hits[hits->n++] = hit;
	return 0;
}

int saved_search(const struct saved_axis *axis, const struct region *region, struct saved_hits *hits)
{
	hits->n = 0;
	if (!region_volume(&axis->shape, region))
		return 0;
	struct interval in = project(&axis->shape, region, axis->axis);
	size_t low = 0, high = axis->n; /* the first span that begins behind the region */
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (axis->spans[mid].low < in.high)
			low = mid + 1;
		else
			high = mid;
	}
	while (low-- > 0 && axis->spans[low].reach > in.low) {
		const struct saved_span *span = &axis->spans[low];
		if (span->high <= in.low)
			continue;
		uint64_t volume = overlap_volume(&axis->shape, saved_region(axis->saved, span->piece), region);
		if (volume && hits_add(hits, (struct saved_hit){span->piece, volume}) < 0)
			return -ENOMEM;
	}
	return 0;
}
