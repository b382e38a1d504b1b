/* Digests of tensors, for the vote. The sum of what each element gives does not depend on the order, so that a block per tensor part
 * may add as it comes. */
#include "gpu_common.cuh"

#include "../digest_mix.h"

static __global__ void __launch_bounds__(THREADS) zero_kernel(uint64_t *digests, size_t n)
{
	for (size_t i = first(); i < n; i += step())
		digests[i] = 0;
}

/* blockIdx.y is the tensor. */
static __global__ void __launch_bounds__(THREADS)
	digests_kernel(const float *from, const uint64_t *starts, uint64_t *digests)
{
	uint64_t begin = starts[blockIdx.y], count = starts[blockIdx.y + 1] - begin, sum = 0;
	for (size_t i = first(); i < count; i += step())
		sum += digest_mix(__float_as_uint(from[begin + i]), i);
	for (int with = WARP / 2; with; with /= 2)
		sum += __shfl_xor_sync(0xffffffffu, sum, with);
	if (threadIdx.x % WARP == 0)
		atomicAdd(reinterpret_cast<unsigned long long *>(&digests[blockIdx.y]),
			  static_cast<unsigned long long>(sum));
}

int gpu_digests(const float *from, const uint64_t *starts, size_t n, uint64_t *digests, void *stream)
{
	int code = launch_flat(n, stream, zero_kernel, digests, n);
	return code || !n ? code
			  : launch(dim3(32, static_cast<unsigned>(n)), THREADS, stream, digests_kernel, from, starts,
				   digests);
}
