/* A segment: the spans of one group in a plan, with an event behind the reading of them, so that the group can be fenced. */
#ifndef CKPT_KERNELS_CUDA_SEGMENT_H
#define CKPT_KERNELS_CUDA_SEGMENT_H

#include "cuda_route.h"

struct cuda_segment {
	uint32_t group;
	size_t first, n;            /* spans of the plan */
	size_t part;                /* of the routes: its own number */
	uint64_t before, bytes;     /* of the plan */
	uint64_t first_unit, units; /* leaves: of the table of all spans */
	bool held;                  /* in this launch: see cuda_held.h */
	struct rt_event *read;      /* the sources are read */
};

/* One for each run of spans of the same group. -ENOMEM; -EINVAL: a group in two places. The events are not made yet. */
int cuda_segments_find(const struct span_list *list, struct cuda_segment **out, size_t *n, struct err *err);

#endif
