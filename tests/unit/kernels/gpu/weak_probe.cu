#include "weak_probe.h"

#include "cuda_runtime.h" /* the emulated one */

static cudaLaunchConfig_t at(unsigned blocks, unsigned threads)
{
	cudaLaunchConfig_t config = {};
	config.gridDim = dim3(blocks);
	config.blockDim = dim3(threads);
	return config;
}

static __global__ void last_block(uint32_t *parts, unsigned *arrived, uint32_t *sum, int fences)
{
	parts[blockIdx.x] = 7 * blockIdx.x;
	if (fences & 1)
		__threadfence();
	if (atomicAdd(arrived, 1u) + 1 < gridDim.x)
		return;
	if (fences & 2)
		__threadfence();
	uint32_t all = 0;
	for (unsigned i = 0; i < gridDim.x; i++)
		all += parts[i];
	*sum = all;
}

int probe_last_block(unsigned blocks, uint32_t *parts, unsigned *arrived, uint32_t *sum, int fences)
{
	cudaLaunchConfig_t config = at(blocks, 1);
	return cudaLaunchKernelEx(&config, last_block, parts, arrived, sum, fences);
}

static __global__ void warp(uint32_t *out, int synced)
{
	__shared__ uint32_t held[64];
	held[threadIdx.x] = threadIdx.x;
	if (synced)
		__syncwarp();
	else
		(void)__shfl_xor_sync(0xffffffffu, threadIdx.x, 1);
	if (threadIdx.x % 32)
		return;
	for (unsigned i = 0; i < 32; i++)
		out[2 * blockIdx.x + threadIdx.x / 32] += held[threadIdx.x + i];
}

int probe_warp(uint32_t *out, int synced)
{
	cudaLaunchConfig_t config = at(2, 64);
	return cudaLaunchKernelEx(&config, warp, out, synced);
}

static __global__ void block(uint32_t *out, int barrier)
{
	__shared__ uint32_t held[64];
	held[threadIdx.x] = threadIdx.x;
	if (barrier)
		__syncthreads();
	else
		__syncwarp();
	out[threadIdx.x] = held[(threadIdx.x + 32) % 64];
}

int probe_block(uint32_t *out, int barrier)
{
	cudaLaunchConfig_t config = at(1, 64);
	return cudaLaunchKernelEx(&config, block, out, barrier);
}

static __global__ void host(uint32_t *data, uint32_t *flag, int fence)
{
	*data = 5;
	if (fence == 1)
		__threadfence();
	if (fence == 2)
		__threadfence_system();
	*static_cast<volatile uint32_t *>(flag) = 1;
}

int probe_host(uint32_t *data, uint32_t *flag, int fence)
{
	cudaLaunchConfig_t config = at(1, 1);
	return cudaLaunchKernelEx(&config, host, data, flag, fence);
}

static __global__ void counter(unsigned *n)
{
	atomicAdd(n, 1u);
}

int probe_counter(unsigned blocks, unsigned *n)
{
	cudaLaunchConfig_t config = at(blocks, 64);
	return cudaLaunchKernelEx(&config, counter, n);
}

static __global__ void lost_update(unsigned *word)
{
	unsigned before = *word;
	*word = before + 1;
}

int probe_lost_update(unsigned *word)
{
	cudaLaunchConfig_t config = at(1, 32);
	return cudaLaunchKernelEx(&config, lost_update, word);
}
