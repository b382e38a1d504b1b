/* A flat range of a box as boxes. Greedy: at each element the largest block of whole inner dimensions that begins there and ends within the
 * range, and as many of them as the line has. On the way up to the outermost dimension that the range crosses each dimension gives one box, on
 * the way down one more. */
#include "client/session/session.h"

#include <inttypes.h>

struct walk {
	uint32_t ndim;
	const uint64_t *offset, *extent;
	uint64_t block[NDIM_MAX]; /* elements of one step in each dimension */
	uint64_t volume;
};

static int walk_init(struct walk *w, int ndim, const uint64_t *offset, const uint64_t *extent, struct err *err)
{
	if (ndim < 0 || ndim > CKPT_NDIM_MAX)
		return err_set(err, -EINVAL, "ndim is %d, not 0 to %d", ndim, CKPT_NDIM_MAX);
	if (ndim && !extent)
		return err_set(err, -EINVAL, "the extent of the box is NULL");
	*w = (struct walk){.ndim = (uint32_t)ndim, .offset = offset, .extent = extent, .volume = 1};
	bool empty = false;
	for (uint32_t d = w->ndim; d-- > 0;) {
		w->block[d] = w->volume;
		empty |= !extent[d];
		if (__builtin_mul_overflow(w->volume, extent[d] ? extent[d] : 1, &w->volume))
			return err_set(err, -EOVERFLOW, "the box has more than 2^64 elements");
	}
	w->volume = empty ? 0 : w->volume;
	return 0;
}

/* The box at element `at`, of at most `left` elements. Returns how many it has. */
static uint64_t take(const struct walk *w, uint64_t at, uint64_t left, ckpt_box *box)
{
	uint32_t dim = 0;
	uint64_t steps = 1, rest = at;
	while (dim + 1 < w->ndim && (at % w->block[dim] || w->block[dim] > left))
		dim++;
	for (uint32_t d = 0; d < w->ndim; d++) {
		uint64_t here = rest / w->block[d], room = w->extent[d] - here;
		rest %= w->block[d];
		if (d == dim)
			steps = min_u64(left / w->block[d], room);
		box->offset[d] = (w->offset ? w->offset[d] : 0) + (d > dim ? 0 : here);
		box->extent[d] = d > dim ? w->extent[d] : d == dim ? steps : 1;
	}
	return w->ndim ? steps * w->block[dim] : 1;
}

int ckpt_range_boxes(int ndim, const uint64_t *offset, const uint64_t *extent, uint64_t start, uint64_t count,
		     ckpt_box *boxes)
{
	struct err err = {0};
	struct walk w = {0};
	int n = 0, rc = walk_init(&w, ndim, offset, extent, &err);
	if (!rc && !boxes)
		rc = err_set(&err, -EINVAL, "`boxes` is NULL: there is nowhere to put them");
	if (!rc && (start > w.volume || count > w.volume - start))
		rc = err_set(&err, -ERANGE,
			     "%" PRIu64 " elements from %" PRIu64 " on are not within the %" PRIu64 " of the box",
			     count, start, w.volume);
	if (rc)
		return session_fail(NULL, rc, &err);
	for (uint64_t done = 0; done < count; n++) {
		boxes[n] = (ckpt_box){.first = done};
		done += take(&w, start + done, count - done, &boxes[n]);
	}
	return n;
}
