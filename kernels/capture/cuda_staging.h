/* Spare memory of a device in which captures are staged: one buffer, which the plans of a device take in turn, as its own
 * stream orders them. */
#ifndef CKPT_KERNELS_CUDA_STAGING_H
#define CKPT_KERNELS_CUDA_STAGING_H

#include "cuda_segment.h"

/* A user more of a buffer of at least `size` bytes. -ENOMEM: the device has not as much to spare. The device is entered. */
int cuda_staging_take(struct device *dev, size_t size, struct err *err);
/* The last user frees it, behind what is on the device's own stream. */
void cuda_staging_put(struct device *dev);

/* The two ways of a list through the buffer. `in`: the spans with their place in it, which is the caller's to free, also
 * on failure. The spans and parts of `out`: what stands there end to end, with its place in the arena. */
int cuda_staging_lists(const struct span_list *list, char *staging, const struct cuda_segment *segments,
		       size_t nsegments, struct span **in, struct cuda_route *out, struct err *err);

#endif
