/* Writes one number to the host's memory, where the device has no stream memory operations for it. */
#include "gpu_walk.cuh"

/* What came before on the stream is over, and visible to the device; the fence makes it so to the host before the number is. */
static __global__ void tell_kernel(void *at, uint64_t value, unsigned width)
{
	__threadfence_system();
	if (width == 8)
		*static_cast<volatile uint64_t *>(at) = value;
	else
		*static_cast<volatile uint32_t *>(at) = static_cast<uint32_t>(value);
	__threadfence_system();
}

int gpu_tell(void *at, uint64_t value, unsigned width, void *stream)
{
	cudaLaunchConfig_t config = {};
	config.gridDim = dim3(1);
	config.blockDim = dim3(1);
	config.stream = static_cast<cudaStream_t>(stream);
	if (width != 4 && width != 8)
		return cudaErrorInvalidValue;
	return cudaLaunchKernelEx(&config, tell_kernel, at, value, width);
}

int gpu_tell_load(void)
{
	return gpu_load(tell_kernel);
}
