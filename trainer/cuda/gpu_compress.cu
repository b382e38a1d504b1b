/* A block of threads for each block of elements: all load and store, one packs, in the order of the elements, so that the bits are the host's. That
 * one takes microseconds, and blocks go side by side: little against the products of a step. */
#include "gpu_compress.h"

#include "common/compress_block.h"
#include "gpu_common.cuh"
#include "gpu_memory.h"

static_assert(static_cast<int>(COMPRESS_BLOCK) == static_cast<int>(THREADS), "a thread for each element");

static __global__ void __launch_bounds__(THREADS)
	pack_kernel(compress_kind kind, size_t floats, const float *from, const float *residual, size_t count,
		    float *to, float *left)
{
	__shared__ float wanted[COMPRESS_BLOCK];
	__shared__ union packed_block packed;
	const size_t blocks = (count + COMPRESS_BLOCK - 1) / COMPRESS_BLOCK;
	for (size_t b = blockIdx.x; b < blocks; b += gridDim.x) {
		size_t at = b * COMPRESS_BLOCK + threadIdx.x;
		wanted[threadIdx.x] = at < count ? from[at] + residual[at] : 0;
		__syncthreads();
		if (!threadIdx.x)
			compress_pack_block(kind, wanted, &packed);
		__syncthreads();
		if (threadIdx.x < floats)
			to[b * floats + threadIdx.x] = packed.floats[threadIdx.x];
		if (at < count)
			left[at] = wanted[threadIdx.x] - compress_element(kind, &packed, static_cast<int>(threadIdx.x));
		__syncthreads();
	}
}

static __global__ void __launch_bounds__(THREADS)
	add_kernel(compress_kind kind, size_t floats, const float *packed, size_t begin, size_t end, float *sum)
{
	for (size_t i = begin + first(); i < end; i += step()) {
		const float *block = packed + i / COMPRESS_BLOCK * floats;
		sum[i] += compress_element(kind, reinterpret_cast<const union packed_block *>(block),
					   static_cast<int>(i % COMPRESS_BLOCK));
	}
}

/* What fills the last grain is zero. */
int gpu_compress_pack(enum compress_kind kind, const float *from, const float *residual, size_t count, float *to,
		      float *left, void *stream)
{
	const size_t blocks = (count + COMPRESS_BLOCK - 1) / COMPRESS_BLOCK, floats = compress_block_floats(kind);
	int code = gpu_zero(to + blocks * floats, (compress_size(kind, count) - blocks * floats) * sizeof(*to), stream);
	return code || !blocks ? code
			       : launch(dim3(blocks_for(blocks)), THREADS, stream, pack_kernel, kind, floats, from,
					residual, count, to, left);
}

int gpu_compress_add(enum compress_kind kind, const float *packed, size_t begin, size_t end, float *sum, void *stream)
{
	return launch_flat(end - begin, stream, add_kernel, kind, compress_block_floats(kind), packed, begin, end, sum);
}
