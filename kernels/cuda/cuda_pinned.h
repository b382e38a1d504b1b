/* What this process has pinned. Pinned memory belongs to the process: whichever of its GPUs comes first registers an
 * arena, for all of them, and it is unregistered when the last has let it go. */
#ifndef CKPT_KERNELS_CUDA_PINNED_H
#define CKPT_KERNELS_CUDA_PINNED_H

#include "device_cuda.h"

/* The device is entered. -EINVAL: it is pinned with another size; -EEXIST: what stood there stays pinned; -E2BIG; -EBUSY:
 * another thread is at it; else as the runtime says. What stayed pinned and is not touched any more is unpinned first. */
int cuda_pin(struct device *dev, void *base, size_t size, struct err *err);
/* idle: the device no longer touches it. What a device that hangs may touch yet stays pinned, until that is seen to have
 * come to its end. */
void cuda_unpin(struct device *dev, void *base, bool idle);
/* Whether all of it is pinned. */
bool cuda_is_pinned(const void *at, size_t n);
/* Of n > 0 bytes so many at the front as one copy may take: no copy goes across registrations. */
size_t cuda_pinned_run(const void *at, size_t n);
/* The device is entered, if it can be, and about to be freed. */
void cuda_pinned_forget(struct device *dev);

#endif
