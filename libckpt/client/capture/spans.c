#include "client/capture/spans.h"

/* Whether box `in` lies within box `out`. */
static bool box_within(const struct region *in, const struct region *out, uint32_t ndim)
{
	for (uint32_t d = 0; d < ndim; d++)
		if (in->offset[d] < out->offset[d] || in->offset[d] + in->extent[d] > out->offset[d] + out->extent[d])
			return false;
	return true;
}

/* A loop around what is there, or a longer row, or more turns of the loop next to it. Called from the innermost dimension
 * outwards; loops are collected innermost first. */
static void add_loop(struct span *span, uint64_t count, int64_t stride)
{
	if (count == 1)
		return;
	uint32_t last = span->ndim - 1;
	if (!span->ndim && stride == (int64_t)span->row_bytes) {
		span->row_bytes *= count;
	} else if (span->ndim && stride == span->stride[last] * (int64_t)span->count[last]) {
		span->count[last] *= count;
	} else {
		span->count[span->ndim] = count;
		span->stride[span->ndim++] = stride;
	}
}

static void outermost_first(struct span *span)
{
	for (uint32_t i = 0, k = span->ndim; i + 1 < k; i++) {
		k--;
		uint64_t count = span->count[i];
		int64_t stride = span->stride[i];
		span->count[i] = span->count[k];
		span->stride[i] = span->stride[k];
		span->count[k] = count;
		span->stride[k] = stride;
	}
}

/* Box in box. */
static void span_of_box(uint32_t ndim, unsigned element, const struct region *held, const struct place *place,
			const struct region *box, struct span *out)
{
	char *at = place->data;
	*out = (struct span){.row_bytes = element};
	for (uint32_t d = ndim; d-- > 0;) {
		at += (int64_t)(box->offset[d] - held->offset[d]) * place->stride[d];
		add_loop(out, box->extent[d], place->stride[d]);
	}
	out->memory = at;
	outermost_first(out);
}

int span_of(const struct shape *shape, unsigned element, const struct region *held, const struct place *place,
	    const struct region *captured, struct span *out)
{
	if (held->kind == REGION_BOX && captured->kind == REGION_BOX) {
		if (!box_within(captured, held, shape->ndim))
			return -EINVAL;
		span_of_box(shape->ndim, element, held, place, captured, out);
		return 0;
	}
	/* A range of a piece that is itself one range of the whole tensor. */
	uint64_t from, count, start, total;
	if (!region_contiguous(shape, captured, &from, &count) || !region_contiguous(shape, held, &start, &total) ||
	    from < start || from + count > start + total)
		return -EINVAL;
	uint64_t skip = (from - start) * element, take = count * element;
	if (held->kind == REGION_FLAT || place_packed(place, held, shape->ndim, element)) {
		*out = (struct span){.memory = place->data + skip, .row_bytes = take};
		return 0;
	}
	span_of_box(shape->ndim, element, held, place, held, out);
	out->skip = skip;
	out->take = take;
	return 0;
}
