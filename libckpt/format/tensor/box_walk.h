/* Box walk: a box in parts that fit a window of memory. */
#ifndef CKPT_FORMAT_BOX_WALK_H
#define CKPT_FORMAT_BOX_WALK_H

#include "format/tensor/region.h"

/* Walks a box in row-major order as boxes of at most `elements` elements, each contiguous in the packed bytes of the whole box. */
struct box_walk {
	const struct region *box;
	uint32_t ndim, axis; /* dimensions before the axis are walked one by one, those behind it are whole */
	uint64_t step;       /* along the axis */
	uint64_t at[NDIM_MAX];
	bool done;
};

/* elements: at least 1. */
void box_walk_start(struct box_walk *w, const struct shape *shape, const struct region *box, uint64_t elements);
bool box_walk_next(struct box_walk *w, struct region *part);

#endif
