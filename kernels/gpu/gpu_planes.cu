/* Elements into byte planes, as packed files hold them (docs/reference/format.md). A warp takes 64 KiB of elements: each lane reads 16 bytes and
 * writes 16 / size bytes to each plane, next to those of its neighbours. */
#include "gpu_walk.cuh"

/* n bytes to any address, as one store where that is aligned. */
template <int N> static __device__ __forceinline__ void put_bytes(uint8_t *to, const uint8_t *v)
{
	if (reinterpret_cast<uintptr_t>(to) % N == 0 && N == 16) {
		*reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(v);
	} else if (reinterpret_cast<uintptr_t>(to) % N == 0 && N == 8) {
		*reinterpret_cast<uint64_t *>(to) = *reinterpret_cast<const uint64_t *>(v);
	} else if (reinterpret_cast<uintptr_t>(to) % N == 0 && N == 4) {
		*reinterpret_cast<uint32_t *>(to) = *reinterpret_cast<const uint32_t *>(v);
	} else {
#pragma unroll
		for (int i = 0; i < N; i++)
			to[i] = v[i];
	}
}

template <int SIZE, typename Source>
static __device__ __forceinline__ void split(const Source &source, uint32_t elements, uint8_t *planes, uint64_t n,
					     unsigned lane)
{
	enum { EACH = UNIT / SIZE };
	uint32_t units = elements / EACH;
	for (uint32_t i = lane; i < units; i += 32) {
		unit_parts v;
		v.whole = source.at(UNIT * i);
#pragma unroll
		for (int plane = 0; plane < SIZE; plane++) {
			alignas(16) uint8_t bytes[EACH];
#pragma unroll
			for (int k = 0; k < EACH; k++)
				bytes[k] = v.v1[k * SIZE + plane];
			put_bytes<EACH>(planes + plane * n + i * EACH, bytes);
		}
	}
	for (uint32_t i = units * EACH + lane; i < elements; i += 32)
		for (int plane = 0; plane < SIZE; plane++)
			planes[plane * n + i] = source.byte(i * SIZE + plane);
}

template <int SIZE>
static __global__ void __launch_bounds__(32 * WARPS) planes_kernel(const char *elements, uint64_t n, uint8_t *planes)
{
	enum { EACH = GPU_LEAF / SIZE };
	const char *end = elements + n * SIZE;
	for (uint64_t i = first_unit(); i * EACH < n; i += unit_step()) {
		uint64_t at = i * EACH, left = n - at;
		uint32_t here = left < EACH ? static_cast<uint32_t>(left) : static_cast<uint32_t>(EACH);
		with_packed(elements + at * SIZE, elements, end, 0,
			    [&](const auto &source) { split<SIZE>(source, here, planes + at, n, threadIdx.x % 32); });
	}
}

int gpu_planes(const void *elements, uint64_t n, unsigned size, void *planes, unsigned blocks, void *stream)
{
	if (size != 1 && size != 2 && size != 4 && size != 8)
		return cudaErrorInvalidValue;
	if (!n)
		return cudaSuccess;
	cudaLaunchConfig_t config = warps_for((n - 1) / (GPU_LEAF / size) + 1, blocks, stream);
	const char *from = static_cast<const char *>(elements);
	uint8_t *to = static_cast<uint8_t *>(planes);
	if (size == 1)
		return cudaLaunchKernelEx(&config, planes_kernel<1>, from, n, to);
	if (size == 2)
		return cudaLaunchKernelEx(&config, planes_kernel<2>, from, n, to);
	if (size == 4)
		return cudaLaunchKernelEx(&config, planes_kernel<4>, from, n, to);
	return cudaLaunchKernelEx(&config, planes_kernel<8>, from, n, to);
}
