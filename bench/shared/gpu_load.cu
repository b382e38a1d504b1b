/* Loads of a GPU to measure against: a sweep that only reads, and work that fills it for a while as forward and backward do. */

#include "gpu_load.h"

enum { THREADS = 256 };

static cudaLaunchConfig_t launch_of(unsigned blocks, void *stream)
{
	cudaLaunchConfig_t config = {};
	config.gridDim = dim3(blocks);
	config.blockDim = dim3(THREADS);
	config.stream = (cudaStream_t)stream;
	return config;
}

static __global__ void __launch_bounds__(THREADS) fill(uint64_t *words, unsigned long long n, uint64_t seed)
{
	unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
	for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
		words[i] = gpu_word(seed, i);
}

int gpu_fill(void *memory, unsigned long long bytes, uint64_t seed, void *stream)
{
	unsigned long long n = bytes / sizeof(uint64_t);
	cudaLaunchConfig_t config = launch_of(gpu_blocks(bytes), stream);
	return cudaLaunchKernelEx(&config, fill, (uint64_t *)memory, n, seed);
}

static __global__ void __launch_bounds__(THREADS)
	sweep(const uint4 *memory, unsigned long long n, unsigned long long *sum)
{
	unsigned long long mine = 0, step = (unsigned long long)gridDim.x * blockDim.x;
	unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
	for (; i + 3 * step < n; i += 4 * step) {
		uint4 a = __ldcs(memory + i), b = __ldcs(memory + i + step), c = __ldcs(memory + i + 2 * step),
		      d = __ldcs(memory + i + 3 * step);
		mine += (a.x ^ b.y) + (c.z ^ d.w) + (a.y ^ c.x) + (b.w ^ d.z) + a.z + a.w + b.x + b.z + c.y + c.w +
			d.x + d.y;
	}
	for (; i < n; i += step)
		mine += memory[i].x + memory[i].y + memory[i].z + memory[i].w;
	if (mine == 0x123456789abcdefull) /* never; the reads must not be left out */
		*sum = mine;
}

int gpu_sweep(const void *memory, unsigned long long bytes, unsigned blocks, unsigned long long *sum, void *stream)
{
	cudaLaunchConfig_t config = launch_of(blocks, stream);
	return cudaLaunchKernelEx(&config, sweep, (const uint4 *)memory, bytes / 16, sum);
}

/* Reads and writes memory with some arithmetic between: neither alone is the bound. */
static __global__ void __launch_bounds__(THREADS) work(float *values, unsigned long long n, unsigned rounds)
{
	unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
	for (unsigned r = 0; r < rounds; r++)
		for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < n;
		     i += step) {
			float v = values[i];
			for (int k = 0; k < 64; k++)
				v = v * 0.999f + 0.001f;
			values[i] = v;
		}
}

int gpu_work(float *values, unsigned long long n, unsigned rounds, unsigned blocks, void *stream)
{
	cudaLaunchConfig_t config = launch_of(blocks, stream);
	return cudaLaunchKernelEx(&config, work, values, n, rounds);
}

int gpu_work_blocks(unsigned *blocks)
{
	int device, processors = 0, each = 0;
	cudaError_t code = cudaGetDevice(&device);
	if (code == cudaSuccess)
		code = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
	if (code == cudaSuccess)
		code = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, work, THREADS, 0);
	*blocks = (unsigned)processors * (unsigned)each;
	return code;
}

int gpu_work_stream(void **stream)
{
	return cudaStreamCreateWithFlags((cudaStream_t *)stream, cudaStreamNonBlocking);
}
