/* A route: the way of some spans into packed memory (the arena, or a staging buffer of the device). The copy engine takes
 * what it can move in one call and is worth a call, and what was gathered (cuda_gather.h). Of the rest, for which there
 * was no room, a kernel packs all that lies between two steps of the counter with one launch. */
#ifndef CKPT_KERNELS_CUDA_ROUTE_H
#define CKPT_KERNELS_CUDA_ROUTE_H

#include "cuda/cuda_table.h"

struct cuda_route {
	struct device *dev;
	struct span *spans; /* simplified; its own */
	size_t n;
	struct cuda_part {
		size_t first, n;  /* spans */
	} parts[PLAN_GROUPS_MAX]; /* of each segment of the plan */
	const char *
		room; /* memory of the device whose bytes are packed already: the copy engine takes them, however few */
	size_t room_size;
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

/* Whether the copy engine is not to take it as it stands. */
bool cuda_packs(const struct device *dev, const struct span *span);

/* Makes ready for the spans that stand in route->spans and parts. After an error it is to be freed as well. The device is entered. */
int cuda_route_init(struct cuda_route *route, struct device *dev, void *base, uint64_t granule, struct err *err);
void cuda_route_free(struct cuda_route *route);

/* Puts the way of a part on the device's own stream, cut at the steps of the counter, which stands at `told` before it. progress: NULL, or
 * where each step is written when the bytes are there. */
int cuda_route_issue(struct cuda_route *route, size_t part, uint64_t told, _Atomic uint64_t *progress, struct err *err);

#endif
