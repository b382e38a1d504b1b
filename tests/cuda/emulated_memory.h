/* The calls of the runtime that code around kernels makes: memory, copies, streams. One device, whose memory is the host's; work of every
 * stream is done when its call returns. */
#ifndef CKPT_TESTS_CUDA_EMULATED_MEMORY_H
#define CKPT_TESTS_CUDA_EMULATED_MEMORY_H

static inline cudaError_t cudaGetLastError()
{
	return cudaSuccess;
}

static inline const char *cudaGetErrorString(cudaError_t code)
{
	switch (code) {
	case cudaSuccess:
		return "no error";
	case cudaErrorInvalidValue:
		return "invalid argument";
	case cudaErrorMemoryAllocation:
		return "out of memory";
	case cudaErrorInvalidConfiguration:
		return "invalid configuration argument";
	case cudaErrorInvalidDevice:
		return "invalid device ordinal";
	case cudaErrorNotReady:
		return "device not ready";
	}
	return "unknown error";
}

static inline cudaError_t cudaGetDeviceCount(int *n)
{
	*n = 1;
	return cudaSuccess;
}

static inline cudaError_t cudaDeviceGetPCIBusId(char *text, int size, int ordinal)
{
	snprintf(text, (size_t)size, "0000:%02X:00.0", 0x1b + ordinal);
	return ordinal ? cudaErrorInvalidDevice : cudaSuccess;
}

static inline cudaError_t cudaSetDevice(int ordinal)
{
	return ordinal ? cudaErrorInvalidDevice : cudaSuccess;
}

static inline cudaError_t cudaGetDevice(int *ordinal)
{
	*ordinal = 0;
	return cudaSuccess;
}

/* Not zeroed: the sanitizer fills it with a pattern. */
template <typename T> static inline cudaError_t cudaMalloc(T **out, size_t n)
{
	void *p = NULL;
	if (posix_memalign(&p, 256, n ? n : 1))
		return cudaErrorMemoryAllocation;
	*out = static_cast<T *>(p);
	return cudaSuccess;
}

template <typename T> static inline cudaError_t cudaMallocHost(T **out, size_t n)
{
	return cudaMalloc(out, n);
}

static inline cudaError_t cudaFree(void *p)
{
	free(p);
	return cudaSuccess;
}

static inline cudaError_t cudaFreeHost(void *p)
{
	free(p);
	return cudaSuccess;
}

static inline cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n, cudaMemcpyKind, cudaStream_t = NULL)
{
	if (n)
		memcpy(dst, src, n);
	return cudaSuccess;
}

static inline cudaError_t cudaMemcpy(void *dst, const void *src, size_t n, cudaMemcpyKind kind)
{
	return cudaMemcpyAsync(dst, src, n, kind);
}

static inline cudaError_t cudaMemsetAsync(void *dst, int value, size_t n, cudaStream_t = NULL)
{
	if (n)
		memset(dst, value, n);
	return cudaSuccess;
}

enum { cudaStreamNonBlocking = 1 };

static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
	void *made = NULL;
	int code = emulator_current ? emulator_current->stream(&made) : 0;
	*stream = static_cast<cudaStream_t>(made);
	return static_cast<cudaError_t>(code);
}

enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16 };

static inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int)
{
	if (!emulator_current || attribute != cudaDevAttrMultiProcessorCount)
		return cudaErrorInvalidValue;
	*value = emulator_current->processors;
	return cudaSuccess;
}

template <typename Kernel>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Kernel *, int threads, size_t)
{
	return emulator_current ? static_cast<cudaError_t>(emulator_current->places(threads, blocks))
				: cudaErrorInvalidValue;
}

static inline cudaError_t cudaStreamDestroy(cudaStream_t)
{
	return cudaSuccess;
}

static inline cudaError_t cudaStreamSynchronize(cudaStream_t)
{
	return cudaSuccess;
}

static inline cudaError_t cudaStreamQuery(cudaStream_t)
{
	return cudaSuccess;
}

static inline cudaError_t cudaDeviceSynchronize()
{
	return cudaSuccess;
}

#endif
