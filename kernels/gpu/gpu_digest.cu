/* Digests of leaves and of pieces. A warp for each, so that a leaf is read in lines of 512 bytes; what bounds it is the device's memory
 * (bench/gpu_digest.c compares it with a plain sweep). */
#include "gpu_xxh3.cuh"

struct near_memory {
	alignas(16) uint8_t bytes[256];
};

/* A short leaf is gathered by the warp, then digested by one lane. */
template <typename Source>
static __device__ uint64_t digest_short(const Source &source, uint32_t bytes, near_memory *near, unsigned lane)
{
	for (uint32_t i = lane; i < bytes; i += 32)
		near->bytes[i] = source.byte(i);
	__syncwarp();
	uint64_t digest = lane ? 0 : xxh3_short(near->bytes, bytes);
	__syncwarp(); /* the next leaf is gathered to the same place */
	return digest;
}

template <typename Source> static __device__ uint64_t digest_long(const Source &source, uint32_t bytes, unsigned lane)
{
	xxh3_warp warp(lane);
	warp.run(source, bytes);
	return warp.merged(bytes * P64_1, XXH_MERGE_64);
}

/* Where the fast way does not go: apart, so that it takes no registers from that. */
static __device__ __attribute__((noinline)) uint64_t digest_other(leaf l, near_memory *near, unsigned lane)
{
	uint64_t digest = 0;
	with_source(l, 0, [&](const auto &source) {
		digest = l.bytes <= XXH_SHORT ? digest_short(source, l.bytes, near, lane)
					      : digest_long(source, l.bytes, lane);
	});
	return digest;
}

/* The bytes of a leaf that stand together at an address which is a multiple of 16; else NULL. */
static __device__ __forceinline__ const char *packed_leaf(const leaf &l)
{
	const char *memory = l.span->memory + l.span->skip + l.at;
	return l.span->ndim || reinterpret_cast<uintptr_t>(memory) % UNIT ? nullptr : memory;
}

/* Two blocks for each multiprocessor: without that bound the compiler uses the first of a lane's words before it has asked for the last ones,
 * and waits for memory twice (tests/tidy/test_sass.py). */
static __global__ void __launch_bounds__(32 * WARPS, 2)
	digest_kernel(gpu_table table, uint64_t first, uint64_t units, uint64_t *leaves, uint8_t *changed)
{
	__shared__ near_memory near[WARPS];
	unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	for (uint64_t i = first_unit(); i < units; i += unit_step()) {
		leaf l = find_leaf(table, first + i);
		uint64_t *place = leaves + l.span->first_leaf + l.index;
		/* Long before it is needed: it may have to come over the bus. */
		uint64_t former = changed && !lane ? *place : 0, digest;
		const char *packed = packed_leaf(l);
		digest = l.bytes > XXH_SHORT && packed ? digest_long(packed16{packed}, l.bytes, lane)
						       : digest_other(l, &near[warp], lane);
		if (!lane)
			*place = digest;
		if (!lane && changed)
			changed[first + i] = digest != former;
	}
}

int gpu_digest(const struct gpu_table *table, uint64_t first, uint64_t units, uint64_t *leaves, uint8_t *changed,
	       unsigned blocks, void *stream)
{
	cudaLaunchConfig_t config = warps_for(units, blocks, stream);
	return units ? cudaLaunchKernelEx(&config, digest_kernel, *table, first, units, leaves, changed) : cudaSuccess;
}

int gpu_digest_load(void)
{
	return gpu_load(digest_kernel);
}

/* ---- pieces ---- */

/* A span's leaf digests: at most 2^28 words in all of a piece, read in bounds of 32 bits. */
static __device__ digest128 digest_piece(const uint64_t *leaves, uint64_t n, unsigned lane)
{
	if (n <= XXH_SHORT / 8)
		return xxh128_short(leaves, static_cast<unsigned>(n));
	xxh3_warp warp(lane);
	const char *bytes = reinterpret_cast<const char *>(leaves);
	if (reinterpret_cast<uintptr_t>(leaves) % UNIT == 0)
		warp.run(packed16{bytes}, static_cast<uint32_t>(8 * n));
	else
		warp.run(packed4{bytes}, static_cast<uint32_t>(8 * n));
	return {warp.merged(8 * n * P64_1, XXH_MERGE_64), warp.merged(~(8 * n * P64_2), XXH_MERGE_128_HIGH)};
}

static __global__ void __launch_bounds__(32 * WARPS)
	pieces_kernel(gpu_table table, const uint64_t *leaves, uint64_t *out)
{
	unsigned lane = threadIdx.x % 32;
	for (uint64_t i = first_unit(); i < table.n; i += unit_step()) {
		uint64_t n = table.before[i + 1] - table.before[i];
		digest128 digest = digest_piece(leaves + table.spans[i].first_leaf, n, lane);
		if (lane)
			continue;
		out[2 * i] = digest.low;
		out[2 * i + 1] = digest.high;
	}
}

int gpu_pieces(const struct gpu_table *table, const uint64_t *leaves, uint64_t *out, unsigned blocks, void *stream)
{
	cudaLaunchConfig_t config = warps_for(table->n, blocks, stream);
	return table->n ? cudaLaunchKernelEx(&config, pieces_kernel, *table, leaves, out) : cudaSuccess;
}
