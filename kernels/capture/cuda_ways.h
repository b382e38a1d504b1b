/* The ways of a plan's spans: the table by which they are digested, and the routes of those that are copied. All of it
 * depends on where the spans stand; a plan that is bound anew takes new ways. */
#ifndef CKPT_KERNELS_CUDA_WAYS_H
#define CKPT_KERNELS_CUDA_WAYS_H

#include "cuda_gather.h"
#include "cuda_segment.h"

struct cuda_ways {
	struct span_list list;
	struct cuda_table all; /* spans, witnesses too, for the digests and for what is held */
	struct cuda_gather gather;
	struct cuda_route in, out; /* out: staged plans only */
};

/* Of the list that stands in it, by the segments of the plan. staged: into the device's staging buffer, and out of it. After an error they
 * are to be dropped as well. The device is entered. */
int cuda_ways_make(struct cuda_ways *ways, struct device *dev, void *base, uint64_t granule,
		   const struct cuda_segment *segments, size_t nsegments, bool staged, struct err *err);
/* With the list. */
void cuda_ways_drop(struct cuda_ways *ways, struct device *dev);

#endif
