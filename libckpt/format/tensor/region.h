/* Regions: the part of a global tensor that one piece holds. Either an N-dimensional box (offset, extent) or a flat range
 * of the row-major whole (ZeRO, distributed optimisers). All numbers are elements. A piece's bytes are packed: the
 * region's elements in row-major order of the global tensor. */
#ifndef CKPT_FORMAT_REGION_H
#define CKPT_FORMAT_REGION_H

#include "base/bytes.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NDIM_MAX = 8 };

struct shape {
	uint32_t ndim; /* 0: a scalar, one element */
	uint64_t dim[NDIM_MAX];
};

enum region_kind { REGION_BOX = 1, REGION_FLAT = 2 };

struct region {
	enum region_kind kind;
	uint64_t offset[NDIM_MAX], extent[NDIM_MAX]; /* box: shape.ndim entries; zero beyond */
	uint64_t start, count;                       /* flat */
};

/* Elements of the shape. -EOVERFLOW when the product of the dimensions (a zero counts as 1, so that strides are bounded
 * too), times 16 bytes, does not fit 63 bits; -EINVAL for ndim > 8. All functions below take a shape that passed this,
 * and regions that passed region_check. */
int shape_volume(const struct shape *shape, uint64_t *volume);
bool shape_equal(const struct shape *a, const struct shape *b);
/* "[4096, 1024]"; cut when too long. Returns dst. */
char *shape_text(const struct shape *shape, char *dst, size_t size);

struct region region_whole(const struct shape *shape); /* the box that is everything */
struct region region_flat(uint64_t start, uint64_t count);
/* 0, or -ERANGE with the dimension and both bounds named: a region outside the shape; -EINVAL for an unknown kind. */
int region_check(const struct shape *shape, const struct region *r, struct err *err);
uint64_t region_volume(const struct shape *shape, const struct region *r);
/* Whether they hold the same elements: a contiguous box equals its flat range, all empty regions are equal. */
bool region_equal(const struct shape *shape, const struct region *a, const struct region *b);
/* "[0:512, 0:1024]" or "flat 100:200"; cut when too long. Returns dst. */
char *region_text(const struct shape *shape, const struct region *r, char *dst, size_t size);

/* Whether the region is one contiguous range of the row-major whole; then *start, *count (either may be NULL) say which.
 * An empty region is contiguous with count 0. */
bool region_contiguous(const struct shape *shape, const struct region *r, uint64_t *start, uint64_t *count);
/* Index in the row-major whole of its first element; 0 for an empty region. */
uint64_t region_first(const struct shape *shape, const struct region *r);
/* Elements of the region whose index in the row-major whole is below `index`. O(ndim). */
uint64_t region_rank(const struct shape *shape, const struct region *r, uint64_t index);
bool region_overlaps(const struct shape *shape, const struct region *a, const struct region *b);

/* Encoding: u8 kind; box: ndim times u64 offset, u64 extent; flat: u64 start, u64 count. region_get fails the reader on
 * an unknown kind; the caller checks the bounds with region_check. */
void region_put(struct wbuf *out, const struct shape *shape, const struct region *r);
void region_get(struct rbuf *in, const struct shape *shape, struct region *r);

/* Walks the intersection of two regions as runs that are contiguous in both packings, in increasing order of src (and of
 * dst). Runs are as long as both packings allow. Costs O(ndim) per run; never allocates; needs nothing but this struct. */
struct region_run {
	uint64_t src, dst; /* element index in the packed bytes of each region */
	uint64_t count;    /* elements */
};

/* The intersection lies in a box (one region, or the common box of two), walked in row-major order with neighbouring
 * dimensions merged where they are contiguous in both packings. A flat range cuts the walk to [next, end). */
struct overlap {
	uint32_t ndim; /* merged dimensions, at least 1; the last is the run */
	uint64_t extent[NDIM_MAX];
	uint64_t src_step[NDIM_MAX], dst_step[NDIM_MAX]; /* elements; 1 in the last dimension */
	int64_t src_base, dst_base; /* packed index of the box's first element; negative before a flat range */
	uint64_t first, next, end;  /* element index in the box */
};

void overlap_init(struct overlap *o, const struct shape *shape, const struct region *src, const struct region *dst);
/* Goes on with the runs at or after packed element `src` (a run that spans it is cut), forward or back. O(ndim). */
void overlap_seek(struct overlap *o, uint64_t src);
/* false: no more runs. */
bool overlap_next(struct overlap *o, struct region_run *run);
/* Elements in both. */
uint64_t overlap_volume(const struct shape *shape, const struct region *a, const struct region *b);

/* Finds two regions that have an element in common. 1 and their indices in pair[], 0 when all are disjoint, -ENOMEM.
 * -E2BIG when that would take more comparisons than *budget allows (what was spent is subtracted). Regions are swept
 * along the axis (row-major order, or a dimension) on which the fewest are abreast: n log n for row, column and block
 * shards alike, quadratic only for sets that no axis separates. */
#define REGION_BUDGET (1ull << 27)
int region_disjoint(const struct shape *shape, const struct region *const *regions, size_t n, uint64_t *budget,
		    size_t pair[2]);

/* Checks that regions cover the shape exactly once. regions[i] belongs to owner owners[i] (a rank, for the message).
 * -EEXIST: two overlap (both named); -ENODATA: a hole (its first element named); -ERANGE: one leaves the shape; -E2BIG,
 * -ENOMEM as region_disjoint. `what` names the tensor. */
int region_cover(const struct shape *shape, const char *what, const struct region *const *regions,
		 const uint32_t *owners, size_t n, struct err *err);

#endif
