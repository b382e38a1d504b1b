#include "format/tensor/region.h"

#include <string.h>

/* The box in which the walk happens, with what each side's packed index does per step in each dimension. */
struct walk {
	uint32_t ndim;
	uint64_t extent[NDIM_MAX], src_step[NDIM_MAX], dst_step[NDIM_MAX];
};

/* Steps of the packing of a box with these extents (of the whole, when they are the shape's); returns the index of the
 * element that stands `at` from the box's corner. */
static uint64_t packing(uint32_t ndim, const uint64_t *extent, const uint64_t *at, uint64_t *step)
{
	uint64_t stride = 1, index = 0;
	for (uint32_t d = ndim; d-- > 0;) {
		step[d] = stride;
		index += at[d] * stride;
		stride *= extent[d];
	}
	return index;
}

/* Fills the merged dimensions. One of extent 1 has no steps; one whose step is the extent of the next in both packings
 * only makes that one longer. */
static void merge(struct overlap *o, const struct walk *w)
{
	uint64_t extent[NDIM_MAX] = {1}, src[NDIM_MAX] = {1}, dst[NDIM_MAX] = {1};
	uint32_t n = 1; /* innermost first */
	for (uint32_t d = w->ndim; d-- > 0;) {
		if (w->extent[d] == 1)
			continue;
		uint32_t last = n - 1;
		if (w->src_step[d] == extent[last] * src[last] && w->dst_step[d] == extent[last] * dst[last]) {
			extent[last] *= w->extent[d];
			continue;
		}
		extent[n] = w->extent[d];
		src[n] = w->src_step[d];
		dst[n] = w->dst_step[d];
		n++;
	}
	o->ndim = n;
	for (uint32_t i = 0; i < n; i++) {
		o->extent[i] = extent[n - 1 - i];
		o->src_step[i] = src[n - 1 - i];
		o->dst_step[i] = dst[n - 1 - i];
	}
}

static void flat_flat(struct overlap *o, uint64_t src, uint64_t src_count, uint64_t dst, uint64_t dst_count)
{
	uint64_t first = max_u64(src, dst), end = min_u64(src + src_count, dst + dst_count);
	if (first >= end)
		return;
	o->extent[0] = o->end = end - first;
	o->src_base = (int64_t)(first - src);
	o->dst_base = (int64_t)(first - dst);
}

/* The walk is the box; the flat range is the whole's packing, shifted, and says where the walk begins and ends. */
static void box_flat(struct overlap *o, const struct shape *shape, const struct region *box, uint64_t start,
		     uint64_t count, bool box_is_src)
{
	static const uint64_t corner[NDIM_MAX];
	struct walk w = {.ndim = shape->ndim};
	memcpy(w.extent, box->extent, sizeof(w.extent));
	packing(w.ndim, box->extent, corner, box_is_src ? w.src_step : w.dst_step);
	uint64_t at = packing(w.ndim, shape->dim, box->offset, box_is_src ? w.dst_step : w.src_step);
	merge(o, &w);
	*(box_is_src ? &o->dst_base : &o->src_base) = (int64_t)at - (int64_t)start;
	o->first = region_rank(shape, box, start);
	o->end = region_rank(shape, box, start + count);
}

static void box_box(struct overlap *o, const struct shape *shape, const struct region *src, const struct region *dst)
{
	struct walk w = {.ndim = shape->ndim};
	uint64_t in_src[NDIM_MAX], in_dst[NDIM_MAX], volume = 1;
	for (uint32_t d = 0; d < w.ndim; d++) {
		uint64_t first = max_u64(src->offset[d], dst->offset[d]);
		uint64_t end = min_u64(src->offset[d] + src->extent[d], dst->offset[d] + dst->extent[d]);
		if (first >= end)
			return;
		w.extent[d] = end - first;
		in_src[d] = first - src->offset[d];
		in_dst[d] = first - dst->offset[d];
		volume *= w.extent[d];
	}
	o->src_base = (int64_t)packing(w.ndim, src->extent, in_src, w.src_step);
	o->dst_base = (int64_t)packing(w.ndim, dst->extent, in_dst, w.dst_step);
	merge(o, &w);
	o->end = volume;
}

void overlap_init(struct overlap *o, const struct shape *shape, const struct region *src, const struct region *dst)
{
	*o = (struct overlap){.ndim = 1, .src_step = {1}, .dst_step = {1}};
	uint64_t src_start, src_count, dst_start, dst_count;
	bool src_flat = region_contiguous(shape, src, &src_start, &src_count);
	bool dst_flat = region_contiguous(shape, dst, &dst_start, &dst_count);
	if (src_flat && dst_flat)
		flat_flat(o, src_start, src_count, dst_start, dst_count);
	else if (dst_flat)
		box_flat(o, shape, src, dst_start, dst_count, true);
	else if (src_flat)
		box_flat(o, shape, dst, src_start, src_count, false);
	else
		box_box(o, shape, src, dst);
	o->next = o->first;
}

/* Elements of the walk whose packed src index is below `src`. Steps are at least as large as what lies below them, so
 * the index grows along the walk and each dimension decides on its own. */
static uint64_t walk_rank(const struct overlap *o, uint64_t src)
{
	uint64_t below = 1, rank = 0;
	for (uint32_t i = 0; i < o->ndim; i++)
		below *= o->extent[i];
	for (uint32_t i = 0; i < o->ndim; i++) {
		uint64_t at = src / o->src_step[i];
		src %= o->src_step[i];
		if (at >= o->extent[i])
			return rank + below;
		below /= o->extent[i];
		rank += at * below;
	}
	return rank;
}

void overlap_seek(struct overlap *o, uint64_t src)
{
	o->next = o->first;
	if (o->first >= o->end)
		return;
	int64_t from_base = (int64_t)min_u64(src, INT64_MAX / 2) - o->src_base;
	if (from_base > 0)
		o->next = min_u64(max_u64(walk_rank(o, (uint64_t)from_base), o->first), o->end);
}

bool overlap_next(struct overlap *o, struct region_run *run)
{
	if (o->next >= o->end)
		return false;
	uint32_t last = o->ndim - 1;
	uint64_t rest = o->next, src = (uint64_t)o->src_base, dst = (uint64_t)o->dst_base;
	uint64_t in_row = rest % o->extent[last];
	rest /= o->extent[last];
	for (uint32_t i = last; i-- > 0;) {
		uint64_t at = rest % o->extent[i];
		rest /= o->extent[i];
		src += at * o->src_step[i];
		dst += at * o->dst_step[i];
	}
	run->src = src + in_row;
	run->dst = dst + in_row;
	run->count = min_u64(o->extent[last] - in_row, o->end - o->next);
	o->next += run->count;
	return true;
}

uint64_t overlap_volume(const struct shape *shape, const struct region *a, const struct region *b)
{
	struct overlap o;
	overlap_init(&o, shape, a, b);
	return o.end > o.first ? o.end - o.first : 0;
}

bool region_overlaps(const struct shape *shape, const struct region *a, const struct region *b)
{
	if (a->kind != REGION_BOX || b->kind != REGION_BOX)
		return overlap_volume(shape, a, b) > 0;
	for (uint32_t d = 0; d < shape->ndim; d++) {
		if (a->offset[d] >= b->offset[d] + b->extent[d] || b->offset[d] >= a->offset[d] + a->extent[d])
			return false;
		if (!a->extent[d] || !b->extent[d])
			return false;
	}
	return true;
}
