/* Where the packed bytes of a span stand in memory, 16 at a time. Sources of a leaf have one form: at(offset) is 16 packed bytes of
 * the leaf, for offsets that are a multiple of 16 away from that for which the source was made; any(offset) is the same for every
 * offset, byte(offset) one byte. They read the span's bytes and nothing beside them. */
#ifndef CKPT_KERNELS_GPU_WALK_CUH
#define CKPT_KERNELS_GPU_WALK_CUH

#include "gpu_kernels.h"

#include <cuda_runtime.h>

enum { UNIT = 16 };

struct unit {
	uint64_t low, high;
};

static __device__ __forceinline__ uint64_t join(uint32_t low, uint32_t high)
{
	return (uint64_t)high << 32 | low;
}

template <typename Source> static __device__ unit by_bytes(const Source &source, uint32_t offset)
{
	unit v = {0, 0};
	for (unsigned i = 0; i < 8; i++) {
		v.low |= static_cast<uint64_t>(source.byte(offset + i)) << 8 * i;
		v.high |= static_cast<uint64_t>(source.byte(offset + 8 + i)) << 8 * i;
	}
	return v;
}

/* ---- packed memory, by alignment ---- */

struct packed16 {
	const char *memory;

	__device__ __forceinline__ unit at(uint32_t offset) const
	{
		uint4 v = __ldcs(reinterpret_cast<const uint4 *>(memory + offset));
		return {join(v.x, v.y), join(v.z, v.w)};
	}

	__device__ __forceinline__ uint8_t byte(uint32_t offset) const
	{
		return static_cast<uint8_t>(memory[offset]);
	}

	__device__ __forceinline__ unit any(uint32_t offset) const
	{
		return reinterpret_cast<uintptr_t>(memory + offset) % 16 ? by_bytes(*this, offset) : at(offset);
	}
};

struct packed4 {
	const char *memory;

	__device__ __forceinline__ unit at(uint32_t offset) const
	{
		const uint32_t *words = reinterpret_cast<const uint32_t *>(memory + offset);
		return {join(words[0], words[1]), join(words[2], words[3])};
	}

	__device__ __forceinline__ uint8_t byte(uint32_t offset) const
	{
		return static_cast<uint8_t>(memory[offset]);
	}

	__device__ __forceinline__ unit any(uint32_t offset) const
	{
		return reinterpret_cast<uintptr_t>(memory + offset) % 4 ? by_bytes(*this, offset) : at(offset);
	}
};

/* Any address: whole words around it, moved into place. At the ends of the memory, where a word would reach beyond, bytes. */
struct packed1 {
	const char *memory, *begin, *end;

	__device__ __forceinline__ uint8_t byte(uint32_t offset) const
	{
		return static_cast<uint8_t>(memory[offset]);
	}

	__device__ __forceinline__ unit at(uint32_t offset) const
	{
		const char *p = memory + offset;
		unsigned beside = static_cast<unsigned>(reinterpret_cast<uintptr_t>(p) & 3);
		if (p - begin < 4 || end - p < UNIT + 4)
			return by_bytes(*this, offset);
		const uint32_t *words = reinterpret_cast<const uint32_t *>(p - beside);
		uint32_t w[5], v[4];
		for (int i = 0; i < 5; i++)
			w[i] = words[i];
		for (int i = 0; i < 4; i++)
			v[i] = beside ? __funnelshift_r(w[i], w[i + 1], 8 * beside) : w[i];
		return {join(v[0], v[1]), join(v[2], v[3])};
	}

	__device__ __forceinline__ unit any(uint32_t offset) const
	{
		return at(offset);
	}
};

/* ---- rows in strided memory ---- */

static __device__ __forceinline__ char *row_of(const struct gpu_span *span, uint64_t row)
{
	char *p = span->memory;
#pragma unroll 1 /* each round waits for the one before it: four in a row would only be long, wherever this is inlined */
	for (uint32_t d = span->ndim; d-- > 1;) {
		uint64_t rest = row / span->count[d];
		p += static_cast<int64_t>(row - rest * span->count[d]) * span->stride[d];
		row = rest;
	}
	return p + static_cast<int64_t>(row) * (span->ndim ? span->stride[0] : 0);
}

/* Goes through the rows of a span from a byte of its image on. */
struct row_cursor {
	const struct gpu_span *span;
	uint64_t row, in_row;
	char *memory;

	__device__ __forceinline__ row_cursor(const struct gpu_span *s, uint64_t at)
	    : span(s), row(at / s->row_bytes), in_row(at - row * s->row_bytes), memory(row_of(s, row))
	{
	}

	/* n bytes are done, of which none beyond the row; more: there are others to do. */
	__device__ __forceinline__ void advance(uint64_t n, bool more)
	{
		in_row += n;
		if (in_row < span->row_bytes || !more)
			return;
		in_row = 0;
		memory = row_of(span, ++row);
	}
};

/* The largest power of two up to the span's grain that divides the place: what can be read there at a time. */
static __device__ __forceinline__ unsigned grain_at(const struct gpu_span *span, uint64_t at)
{
	unsigned grain = span->grain;
	while (at & (grain - 1))
		grain >>= 1;
	return grain;
}

union unit_parts {
	unit whole;
	uint4 v16[1];
	uint64_t v8[2];
	uint32_t v4[4];
	uint16_t v2[8];
	uint8_t v1[16];
};

template <typename T> static __device__ unit gather(const struct gpu_span *span, uint64_t at, T *parts, unit_parts *all)
{
	row_cursor cursor(span, at);
	enum { N = UNIT / sizeof(T) };
#pragma unroll
	for (int i = 0; i < N; i++) {
		parts[i] = *reinterpret_cast<const T *>(cursor.memory + cursor.in_row);
		cursor.advance(sizeof(T), i + 1 < N);
	}
	return all->whole;
}

struct strided {
	const struct gpu_span *span;
	uint64_t from; /* of the leaf, in the image */

	/* Large, and slow beside what a call costs. */
	__device__ __attribute__((noinline)) unit at(uint32_t offset) const
	{
		unit_parts v;
		uint64_t place = from + offset;
		switch (grain_at(span, place)) {
		case 16:
			return gather(span, place, v.v16, &v);
		case 8:
			return gather(span, place, v.v8, &v);
		case 4:
			return gather(span, place, v.v4, &v);
		case 2:
			return gather(span, place, v.v2, &v);
		default:
			return gather(span, place, v.v1, &v);
		}
	}

	__device__ __forceinline__ unit any(uint32_t offset) const
	{
		return at(offset);
	}

	__device__ __attribute__((noinline)) uint8_t byte(uint32_t offset) const
	{
		row_cursor cursor(span, from + offset);
		return static_cast<uint8_t>(cursor.memory[cursor.in_row]);
	}
};

/* ---- units of a table ---- */

struct leaf {
	const struct gpu_span *span;
	uint64_t at; /* of the packed part */
	uint64_t index;
	uint32_t bytes;
};

/* The leaf with this number among all of the table. By all lanes of a warp together: each round tries 32 spans. */
static __device__ __forceinline__ leaf find_leaf(const struct gpu_table &table, uint64_t number)
{
	uint64_t low = 0, high = table.n; /* before[low] <= number < before[high] */
	unsigned lane = threadIdx.x % 32;
	while (high - low > 1) {
		uint64_t step = (high - low + 31) / 32, probe = low + lane * step;
		bool fits = probe < high && table.before[probe] <= number;
		uint64_t last = low + (__popc(__ballot_sync(0xffffffffu, fits)) - 1) * step;
		high = last + step < high ? last + step : high;
		low = last;
	}
	const struct gpu_span *span = table.spans + low;
	uint64_t index = number - table.before[low], at = index * GPU_LEAF, left = span->bytes - at;
	return {span, at, index, left < GPU_LEAF ? static_cast<uint32_t>(left) : static_cast<uint32_t>(GPU_LEAF)};
}

/* Calls with a source of the packed bytes from `memory` on, which lies in [begin, end); its reads are multiples of 16 away from offset
 * `beside`. */
template <typename Use>
static __device__ __forceinline__ void with_packed(const char *memory, const char *begin, const char *end,
						   uint32_t beside, const Use &use)
{
	uintptr_t place = reinterpret_cast<uintptr_t>(memory) + beside;
	if (place % 16 == 0)
		use(packed16{memory});
	else if (place % 4 == 0)
		use(packed4{memory});
	else
		use(packed1{memory, begin, end});
}

/* The same for the leaf. */
template <typename Use>
static __device__ __forceinline__ void with_source(const leaf &l, uint32_t beside, const Use &use)
{
	const struct gpu_span *span = l.span;
	if (span->ndim) {
		use(strided{span, span->skip + l.at});
		return;
	}
	const char *begin = span->memory + span->skip;
	with_packed(begin + l.at, begin, begin + span->bytes, beside, use);
}

/* ---- launches: a warp for each unit ---- */

/* Loads a kernel before it is first launched, which may otherwise wait for the whole device. */
template <typename Kernel> static inline int gpu_load(Kernel *kernel)
{
	cudaFuncAttributes attributes;
	return cudaFuncGetAttributes(&attributes, kernel);
}

enum { WARPS = 8 };

static inline cudaLaunchConfig_t warps_for(uint64_t work, unsigned blocks, void *stream)
{
	uint64_t needed = (work + WARPS - 1) / WARPS;
	cudaLaunchConfig_t config = {};
	config.gridDim = dim3(needed < blocks ? static_cast<unsigned>(needed) : blocks);
	config.blockDim = dim3(32 * WARPS);
	config.stream = static_cast<cudaStream_t>(stream);
	return config;
}

/* Of the calling warp, and how many there are. */
static __device__ __forceinline__ uint64_t first_unit()
{
	return static_cast<uint64_t>(blockIdx.x) * WARPS + threadIdx.x / 32;
}

static __device__ __forceinline__ uint64_t unit_step()
{
	return static_cast<uint64_t>(gridDim.x) * WARPS;
}

#endif
