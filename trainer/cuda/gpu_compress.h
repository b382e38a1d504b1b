/* Packed gradients on the device: what compress.h does on the host, with the same bits. Plain C; calls put the kernel on
 * the stream and return 0 or the vendor's code. */
#ifndef CKPT_TRAINER_GPU_COMPRESS_H
#define CKPT_TRAINER_GPU_COMPRESS_H

#include <stddef.h>

#include "common/compress.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `left` is not `residual`. */
int gpu_compress_pack(enum compress_kind kind, const float *from, const float *residual, size_t count, float *to,
		      float *left, void *stream);
int gpu_compress_add(enum compress_kind kind, const float *packed, size_t begin, size_t end, float *sum, void *stream);

#ifdef __cplusplus
}
#endif

#endif
