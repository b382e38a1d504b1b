#include "format/tensor/box_walk.h"

void box_walk_start(struct box_walk *w, const struct shape *shape, const struct region *box, uint64_t elements)
{
	uint64_t inner = 1;
	*w = (struct box_walk){.box = box, .ndim = shape->ndim, .step = 1};
	for (uint32_t d = 0; d < shape->ndim; d++)
		w->done |= !box->extent[d];
	if (w->done || !shape->ndim)
		return;
	/* The outermost dimension of which some steps fit. */
	w->axis = shape->ndim - 1;
	while (w->axis > 0 && box->extent[w->axis] <= elements / inner)
		inner *= box->extent[w->axis--];
	w->step = elements / inner;
	w->step = w->step ? w->step : 1;
}

bool box_walk_next(struct box_walk *w, struct region *part)
{
	if (w->done)
		return false;
	*part = *w->box;
	w->done = !w->ndim;
	if (w->done)
		return true;
	for (uint32_t d = 0; d <= w->axis; d++) {
		uint64_t left = w->box->extent[d] - w->at[d];
		part->offset[d] += w->at[d];
		part->extent[d] = d < w->axis ? 1 : left < w->step ? left : w->step;
	}
	w->at[w->axis] += part->extent[w->axis];
	uint32_t d = w->axis;
	for (; d > 0 && w->at[d] == w->box->extent[d]; d--) {
		w->at[d] = 0;
		w->at[d - 1]++;
	}
	w->done = w->at[0] == w->box->extent[0];
	return true;
}
