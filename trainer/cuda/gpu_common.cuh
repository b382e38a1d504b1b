/* What the kernels share: bf16, sums over a block, launches. */
#ifndef CKPT_TRAINER_GPU_COMMON_CUH
#define CKPT_TRAINER_GPU_COMMON_CUH

#include <cuda_runtime.h>

#include "gpu_layers.h"

enum { THREADS = 256, WARP = 32, BLOCKS_MAX = 65535 };

static inline __device__ float from_bf16(bf16 v)
{
	return __uint_as_float(static_cast<unsigned>(v) << 16);
}

/* To nearest, ties to even; a NaN stays one. */
static inline __device__ bf16 to_bf16(float v)
{
	unsigned bits = __float_as_uint(v);
	if ((bits & 0x7fffffffu) > 0x7f800000u)
		return static_cast<bf16>(bits >> 16 | 0x40u);
	return static_cast<bf16>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

struct add {
	__device__ float operator()(float a, float b) const
	{
		return a + b;
	}
};

struct larger {
	__device__ float operator()(float a, float b) const
	{
		return a > b ? a : b;
	}
};

/* Over all threads of a block of THREADS; every thread gets it. `near` has THREADS / WARP + 1 floats and may be used again at once. */
template <typename Op> static __device__ float over_block(float v, float *near, Op op)
{
	unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
	for (int with = WARP / 2; with; with /= 2)
		v = op(v, __shfl_xor_sync(0xffffffffu, v, with));
	if (!lane)
		near[warp] = v;
	__syncthreads();
	v = near[0];
	for (unsigned w = 1; w < THREADS / WARP; w++)
		v = op(v, near[w]);
	__syncthreads();
	return v;
}

/* The thread's place among all, and how many there are: elements are gone through with that step. */
static inline __device__ size_t first()
{
	return static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

static inline __device__ size_t step()
{
	return static_cast<size_t>(gridDim.x) * blockDim.x;
}

static inline unsigned blocks_for(size_t units)
{
	const size_t most = BLOCKS_MAX;
	return static_cast<unsigned>(units < most ? units : most);
}

template <typename Kernel, typename... Args>
static int launch(dim3 blocks, unsigned threads, void *stream, Kernel kernel, Args... args)
{
	cudaLaunchConfig_t at = {};
	at.gridDim = blocks;
	at.blockDim = dim3(threads);
	at.stream = static_cast<cudaStream_t>(stream);
	return static_cast<int>(cudaLaunchKernelEx(&at, kernel, args...));
}

/* Threads of a block that goes through n elements side by side: whole warps. */
static inline unsigned threads_for(size_t n)
{
	const size_t most = THREADS;
	return static_cast<unsigned>(n < most ? (n + WARP - 1) / WARP * WARP : most);
}

/* One thread for each of n elements, or fewer that go on. */
template <typename Kernel, typename... Args> static int launch_flat(size_t n, void *stream, Kernel kernel, Args... args)
{
	dim3 blocks(blocks_for((n + THREADS - 1) / THREADS));
	return n ? launch(blocks, threads_for(n), stream, kernel, args...) : 0;
}

/* The same for each of `count` sets of them, which blockIdx.y tells. */
template <typename Kernel, typename... Args>
static int launch_sets(size_t n, unsigned count, void *stream, Kernel kernel, Args... args)
{
	dim3 blocks(blocks_for((n + THREADS - 1) / THREADS), count);
	return n && count ? launch(blocks, threads_for(n), stream, kernel, args...) : 0;
}

/* One block of THREADS for each of n rows, or fewer that go on. */
template <typename Kernel, typename... Args> static int launch_rows(size_t n, void *stream, Kernel kernel, Args... args)
{
	return n ? launch(dim3(blocks_for(n)), THREADS, stream, kernel, args...) : 0;
}

#endif
