/* Inside the real runtime's table: the runtime (cuda_rt_real.c), and calls of the driver (cuda_rt_driver.c). */
#ifndef CKPT_KERNELS_CUDA_REAL_H
#define CKPT_KERNELS_CUDA_REAL_H

#include "cuda_rt.h"

#include <cuda.h>

typedef CUresult write64_fn(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned flags);
typedef CUresult write32_fn(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags);

/* The driver's own: cudaGetDevice and cudaSetDevice would make a context for a thread that has none. */
typedef CUresult attribute_fn(int *value, CUdevice_attribute which, CUdevice device);
typedef CUresult context_retain_fn(CUcontext *context, CUdevice device);
typedef CUresult context_release_fn(CUdevice device);
typedef CUresult current_fn(CUcontext *context);
typedef CUresult make_current_fn(CUcontext context);
typedef CUresult stream_context_fn(CUstream stream, CUcontext *context);
typedef CUresult allocation_fn(CUdeviceptr *base, size_t *size, CUdeviceptr memory);

struct real {
	struct cuda_rt rt; /* first */
	write64_fn *write64;
	write32_fn *write32;
	attribute_fn *attribute;
	context_retain_fn *context_retain;
	context_release_fn *context_release;
	current_fn *current;
	make_current_fn *make_current;
	stream_context_fn *stream_context;
	allocation_fn *allocation;
};

/* Of the table; rt may be NULL. */
int cuda_real_errno(struct cuda_rt *rt, int code);
const char *cuda_real_text(struct cuda_rt *rt, int code);
/* A code of the runtime, which forgets it. */
int cuda_real_result(int code);

/* Finds the calls of the driver. -ENODEV: it has none of such a name. */
int cuda_real_driver(struct real *real, struct err *err);

int cuda_real_traits(struct cuda_rt *rt, int ordinal, struct rt_traits *traits);
int cuda_real_context_retain(struct cuda_rt *rt, int ordinal, struct rt_context **context);
int cuda_real_context_release(struct cuda_rt *rt, int ordinal);
int cuda_real_current(struct cuda_rt *rt, struct rt_context **context);
int cuda_real_make_current(struct cuda_rt *rt, struct rt_context *context);
int cuda_real_stream_context(struct cuda_rt *rt, struct rt_stream *stream, struct rt_context **context);
int cuda_real_allocation(struct cuda_rt *rt, const void *memory, void **base, size_t *size);
int cuda_real_write64(struct cuda_rt *rt, struct rt_stream *stream, void *at, uint64_t value);
int cuda_real_write32(struct cuda_rt *rt, struct rt_stream *stream, void *at, uint32_t value);

#endif
