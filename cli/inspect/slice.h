/* A box of a tensor in the notation of Python: "0:10, :, -1". Steps are refused: what they leave is no box. */
#ifndef CKPT_CLI_SLICE_H
#define CKPT_CLI_SLICE_H

#include "format/tensor/region.h"

struct slice {
	struct region box;
	struct shape shape; /* of the result: a dimension with a single index is dropped */
};

/* NULL text: all. Dimensions that are not mentioned are whole. -EINVAL, -ERANGE with the part that is wrong. */
int slice_parse(const char *text, const struct shape *shape, struct slice *slice, struct err *err);

/* Walks a box in row-major order as boxes of at most `elements` elements, each contiguous in the packed bytes of the whole box. */
struct slice_walk {
	const struct region *box;
	uint32_t ndim, axis; /* dimensions before the axis are walked one by one, those behind it are whole */
	uint64_t step;       /* along the axis */
	uint64_t at[NDIM_MAX];
	bool done;
};

/* elements: at least 1. */
void slice_walk_start(struct slice_walk *w, const struct shape *shape, const struct region *box, uint64_t elements);
bool slice_walk_next(struct slice_walk *w, struct region *part);

#endif
