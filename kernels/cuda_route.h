/* A route: the way of some spans into packed memory (the arena, or a staging buffer of the device). The copy engine takes what it can move
 * in one call and is worth a call; a kernel packs the rest, all of it that lies between two steps of the counter in one launch. */
#ifndef CKPT_KERNELS_CUDA_ROUTE_H
#define CKPT_KERNELS_CUDA_ROUTE_H

#include "cuda_table.h"

struct cuda_route {
	struct device *dev;
	const struct span *spans; /* simplified; the owner's */
	size_t n;
	char *base;
	uint64_t granule;
	uint64_t *unit; /* of each span: its first in the table; COPIED: the copy engine takes it */
	struct cuda_table packed;
	struct cuda_batch {
		void **dst;
		const void **src;
		size_t *bytes;
		size_t n;
	} batch; /* where copies go together: room for BATCH_MAX; else NULL */
};

#define COPIED UINT64_MAX

/* Whether a kernel does it. */
bool cuda_packs(const struct device *dev, const struct span *span);

int cuda_route_init(struct cuda_route *route, struct device *dev, const struct span *spans, size_t n, void *base,
		    uint64_t granule, struct err *err);
void cuda_route_free(struct cuda_route *route);

/* Puts the way of spans [first, first + n) on the device's own stream, cut at the steps of the counter, which stands at `told` before
 * them. progress: NULL, or where each step is written when the bytes are there. */
int cuda_route_issue(struct cuda_route *route, size_t first, size_t n, uint64_t told, _Atomic uint64_t *progress,
		     struct err *err);

#endif
