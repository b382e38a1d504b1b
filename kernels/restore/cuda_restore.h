/* What a device has of restores: cuda_restore.c. */
#ifndef CKPT_KERNELS_CUDA_RESTORE_H
#define CKPT_KERNELS_CUDA_RESTORE_H

#include "cuda_load.h"

struct cuda_restoring {
	struct cuda_scratch scratch;
	struct cuda_load *loads; /* that live */
	struct cuda_piece flying[SCRATCH_PIECES];
	uint64_t issued, awaited; /* pieces */
	bool lost;                /* the device hung in the last one: it may touch the scratch yet */
};

#endif
