/* A segment: the spans of one group in a plan, with an event behind the reading of them and its own graphs, so that the group can be fenced. */
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
	struct rt_graph *in, *out;
};

/* One for each run of spans of the same group. -ENOMEM; -EINVAL: a group in two places. The events are not made yet. */
int cuda_segments_find(const struct span_list *list, struct cuda_segment **out, size_t *n, struct err *err);

/* Records the segment's graphs: the way in, and, when `out` is not NULL, the way out. The counter is written on the last of them. The device is
 * entered. */
int cuda_segment_record(struct cuda_segment *segment, struct cuda_route *in, struct cuda_route *out,
			_Atomic uint64_t *progress, struct err *err);
void cuda_segment_forget(struct device *dev, struct cuda_segment *segment);

/* Puts it on the device's own stream: its graph, or without one (batched) the copies. out: the way out. */
int cuda_segment_run(struct cuda_segment *segment, struct cuda_route *route, bool out, _Atomic uint64_t *progress,
		     struct err *err);

#endif
