/* What a capture need not copy, since the arena holds it. Which leaves these are the device alone knows, once it has digested them, and
 * nobody waits for that. So the host guesses of which groups it is all, or most: no copy of theirs is put on the copy engine, but a
 * kernel behind the digests copies the leaves that have changed. All other groups are copied as ever. */
#ifndef CKPT_KERNELS_CUDA_HELD_H
#define CKPT_KERNELS_CUDA_HELD_H

#include "cuda_segment.h"

struct cuda_held {
	uint8_t *
		changed; /* in device memory, of each unit of the plan: its digest is another than the arena's. NULL: no units */
};

/* Memory for all units of the spans, witnesses too, there for what is put on the device's own stream behind it. The device is entered. */
int cuda_held_init(struct cuda_held *held, struct device *dev, const struct span_list *list, struct err *err);
void cuda_held_free(struct cuda_held *held, struct device *dev);

/* Sets `held` of all segments, for a launch with this target: its digests are still those of the arena. */
void cuda_held_guess(const struct span_list *list, struct cuda_segment *segments, size_t n,
		     const struct capture_target *target);

/* Puts the copy of what has changed of a segment on the device's own stream, where the digests are waited for already. table: of all
 * units. */
int cuda_held_issue(const struct cuda_held *held, struct device *dev, const struct cuda_table *table,
		    const struct cuda_segment *segment, void *base, struct err *err);

#endif
