/* A GPU as the place where a rank computes: one device of this node, with cuBLAS for products and NCCL between ranks. */
#ifndef CKPT_TRAINER_PLATFORM_CUDA_H
#define CKPT_TRAINER_PLATFORM_CUDA_H

#include "blas_table.h"
#include "model/engine.h"

/* As platform_cuda(), with these libraries, on this device. */
int platform_cuda_with(const struct blas_table *blas, const struct nccl_table *nccl, int ordinal,
		       struct platform **platform, char why[PLATFORM_WHY_SIZE]);

#endif
