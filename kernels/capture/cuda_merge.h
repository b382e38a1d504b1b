/* Spans of a plan that adjoin both in device memory and where they are packed, as one: so that the copy engine takes them with one call,
 * however many tensors a flat buffer holds. Never across two allocations of the device, which no copy may cross. */
#ifndef CKPT_KERNELS_CUDA_MERGE_H
#define CKPT_KERNELS_CUDA_MERGE_H

#include "cuda/device_cuda.h"

/* An allocation of the device; size 0: none. */
struct cuda_allocation {
	const char *base;
	size_t size;
};

/* Adds the n simplified spans, but empty ones, to the *nout in `out`, of which those from `first` on may be continued.
 * known: the allocation that was asked for last. The device is entered. */
int cuda_merge(struct device *dev, const struct span *spans, size_t n, struct span *out, size_t first, size_t *nout,
	       struct cuda_allocation *known, struct err *err);

#endif
