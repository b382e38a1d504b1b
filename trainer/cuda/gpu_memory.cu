#include "gpu_memory.h"

#include <cuda_runtime.h>
#include <errno.h>

/* Errors that do not stay are remembered for the next question, to which they mean nothing. */
static int result(cudaError_t code)
{
	if (code != cudaSuccess)
		(void)cudaGetLastError();
	return static_cast<int>(code);
}

int gpu_count(void)
{
	int n = 0; /* left untouched on failure */
	return result(cudaGetDeviceCount(&n)) ? 0 : n;
}

int gpu_open(int ordinal, void **stream)
{
	cudaStream_t made = NULL;
	int code = result(cudaSetDevice(ordinal));
	if (!code)
		code = result(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
	*stream = made;
	return code;
}

int gpu_close(void *stream)
{
	return result(cudaStreamDestroy(static_cast<cudaStream_t>(stream)));
}

int gpu_bus_id(int ordinal, char *text, int size)
{
	return result(cudaDeviceGetPCIBusId(text, size, ordinal));
}

int gpu_malloc(void **memory, size_t bytes)
{
	return result(cudaMalloc(memory, bytes));
}

int gpu_free(void *memory)
{
	return result(cudaFree(memory));
}

int gpu_malloc_host(void **memory, size_t bytes)
{
	return result(cudaMallocHost(memory, bytes));
}

int gpu_free_host(void *memory)
{
	return result(cudaFreeHost(memory));
}

int gpu_copy(void *to, const void *from, size_t bytes, void *stream)
{
	return result(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream)));
}

int gpu_zero(void *at, size_t bytes, void *stream)
{
	return result(cudaMemsetAsync(at, 0, bytes, static_cast<cudaStream_t>(stream)));
}

int gpu_query(void *stream, const char **text)
{
	cudaError_t code = cudaStreamQuery(static_cast<cudaStream_t>(stream));
	*text = cudaGetErrorString(code);
	return code == cudaSuccess ? 1 : code == cudaErrorNotReady ? (result(code), 0) : -EIO;
}

const char *gpu_text(int code)
{
	return cudaGetErrorString(static_cast<cudaError_t>(code));
}
