#include "probe.h"

#include "cuda_runtime.h" /* the emulated one */

static cudaLaunchConfig_t at(unsigned blocks, unsigned threads)
{
	cudaLaunchConfig_t config = {};
	config.gridDim = dim3(blocks);
	config.blockDim = dim3(threads);
	return config;
}

static __global__ void count(uint32_t *out, uint32_t n)
{
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n)
		return;
	out[i]++;
}

int probe_count(unsigned blocks, unsigned threads, uint32_t *out, uint32_t n)
{
	cudaLaunchConfig_t config = at(blocks, threads);
	return cudaLaunchKernelEx(&config, count, out, n);
}

static __global__ void sum_words(const uint32_t *words, uint32_t n, unsigned long long *sum)
{
	__shared__ uint64_t of_warp[32];
	uint64_t mine = 0;
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		mine += words[i];
	for (int by = 16; by; by >>= 1)
		mine += __shfl_down_sync(0xffffffffu, mine, by);
	if (threadIdx.x % 32 == 0)
		of_warp[threadIdx.x / 32] = mine;
	__syncthreads();
	if (threadIdx.x)
		return;
	for (unsigned warp = 1; warp < blockDim.x / 32; warp++)
		mine += of_warp[warp];
	atomicAdd(sum, (unsigned long long)mine);
}

int probe_sum(unsigned blocks, unsigned threads, const uint32_t *words, uint32_t n, unsigned long long *sum)
{
	cudaLaunchConfig_t config = at(blocks, threads);
	return cudaLaunchKernelEx(&config, sum_words, words, n, sum);
}

static __global__ void reverse(uint32_t *words, int barrier)
{
	__shared__ uint32_t held[1024];
	held[threadIdx.x] = words[threadIdx.x];
	if (barrier)
		__syncthreads();
	words[threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
}

int probe_reverse(unsigned threads, uint32_t *words, int barrier)
{
	cudaLaunchConfig_t config = at(1, threads);
	return cudaLaunchKernelEx(&config, reverse, words, barrier);
}

static __global__ void lanes(const uint32_t *words, uint32_t *out, int width)
{
	uint32_t word = words[threadIdx.x], *mine = out + 5 * threadIdx.x;
	mine[0] = __shfl_sync(0xffffffffu, word, threadIdx.x * 7, width);
	mine[1] = __shfl_xor_sync(0xffffffffu, word, 5, width);
	mine[2] = __shfl_up_sync(0xffffffffu, word, 3, width);
	mine[3] = __shfl_down_sync(0xffffffffu, word, 3, width);
	mine[4] = __ballot_sync(0xffffffffu, word & 1);
}

int probe_lanes(const uint32_t *words, uint32_t *out, int width)
{
	cudaLaunchConfig_t config = at(1, 32);
	return cudaLaunchKernelEx(&config, lanes, words, out, width);
}

static __global__ void halves(uint32_t *out)
{
	if (threadIdx.x < 16) {
		out[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, threadIdx.x, 1);
		out[threadIdx.x] += __any_sync(0x0000ffffu, threadIdx.x == 3) ? 100 : 0;
	} else {
		out[threadIdx.x] = __all_sync(0xffff0000u, threadIdx.x >= 16) ? 200 : 0;
	}
	__syncwarp();
	if (threadIdx.x == 0)
		out[0] += out[31];
}

int probe_halves(uint32_t *out)
{
	cudaLaunchConfig_t config = at(1, 32);
	return cudaLaunchKernelEx(&config, halves, out);
}

static __global__ void order_of_blocks(uint32_t *order)
{
	if (threadIdx.x == 0)
		order[1 + atomicAdd(&order[0], 1u)] = blockIdx.x;
}

int probe_order(unsigned blocks, uint32_t *order)
{
	cudaLaunchConfig_t config = at(blocks, 32);
	return cudaLaunchKernelEx(&config, order_of_blocks, order);
}

static __global__ void hang()
{
	if (threadIdx.x == 5)
		return;
	__syncthreads();
}

int probe_hang(void)
{
	cudaLaunchConfig_t config = at(1, 64);
	return cudaLaunchKernelEx(&config, hang);
}

static __global__ void lost_lane()
{
	if (threadIdx.x < 8)
		(void)__shfl_sync(0x000000ffu, threadIdx.x, 12);
}

int probe_lost_lane(void)
{
	cudaLaunchConfig_t config = at(1, 32);
	return cudaLaunchKernelEx(&config, lost_lane);
}

int probe_too_many_threads(void)
{
	cudaLaunchConfig_t config = at(1, 1025);
	return cudaLaunchKernelEx(&config, hang);
}
