/* What platform_cuda.c and engine_cuda.c share. */
#ifndef CKPT_TRAINER_ENGINE_CUDA_H
#define CKPT_TRAINER_ENGINE_CUDA_H

#include "blas_table.h"
#include "model/engine.h"
#include "nvml.h"

struct cuda {
	struct platform base; /* first */
	const struct blas_table *blas;
	void *stream;
	int ordinal;
	struct nvml *nvml; /* NULL: no memory for it */
};

/* platform_cuda.c: notes it as the device's reason, and returns -ENOTRECOVERABLE. */
int cuda_fail(struct cuda *cuda, const char *doing, int code);

/* engine_cuda.c */
int engine_cuda_create(struct platform *platform, const struct engine_setup *setup, struct engine **engine);

#endif
