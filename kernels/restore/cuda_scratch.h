/* Pinned memory of the host that restores go through, and the events of what is under way: made by the first restore of a device, and kept
 * until the device is freed. Pinning it for each would take longer than what is copied. */
#ifndef CKPT_KERNELS_CUDA_SCRATCH_H
#define CKPT_KERNELS_CUDA_SCRATCH_H

#include "cuda/device_cuda.h"

/* So many pieces are under way at a time, of so many bytes and digests each; of memory that is not pinned, of fewer bytes. */
enum { SCRATCH_PIECES = 4, SCRATCH_DIGESTS = 4096, PIECE_PINNED = 64 << 20, PIECE_BOUNCED = 16 << 20 };

struct cuda_scratch {
	struct rt_event *events[SCRATCH_PIECES];
	uint64_t *digests; /* SCRATCH_DIGESTS of each piece */
	char *bounce;      /* NULL until it is wanted; PIECE_BOUNCED and a leaf of each piece */
};

/* The device is entered. What a failure leaves is completed by the next call. */
int cuda_scratch_make(struct device *dev, struct cuda_scratch *scratch, bool bounce, struct err *err);
/* idle: the device does not touch it any more; else its memory is left to it. */
void cuda_scratch_free(struct device *dev, struct cuda_scratch *scratch, bool idle);

static inline uint64_t *cuda_scratch_digests(const struct cuda_scratch *scratch, uint64_t piece)
{
	return scratch->digests + piece % SCRATCH_PIECES * SCRATCH_DIGESTS;
}

char *cuda_scratch_bounce(const struct cuda_scratch *scratch, uint64_t piece);

#endif
