/* Packs spans into the arena and back: many small pieces, or rows too short for the copy engine, as one launch. A warp for each leaf;
 * whole aligned words of 16 bytes on the side that is packed, over the bus on the capture's way. */
#include "gpu_walk.cuh"

/* The head up to an aligned address, the aligned middle, the tail. */
struct parts {
	uint32_t head, units, bytes;

	__device__ __forceinline__ parts(const char *aligned, uint32_t n) : bytes(n)
	{
		head = static_cast<uint32_t>(-reinterpret_cast<uintptr_t>(aligned) % UNIT);
		head = head < n ? head : n;
		units = (n - head) / UNIT;
	}

	__device__ __forceinline__ uint32_t tail() const
	{
		return head + UNIT * units;
	}
};

static __device__ __forceinline__ uint4 words_of(const unit &v)
{
	return make_uint4(static_cast<uint32_t>(v.low), static_cast<uint32_t>(v.low >> 32),
			  static_cast<uint32_t>(v.high), static_cast<uint32_t>(v.high >> 32));
}

enum { FLYING = 4 }; /* words of a lane */

/* To packed memory. */
template <typename Source>
static __device__ __forceinline__ void copy_out(const Source &source, char *to, const parts &p, unsigned lane)
{
	if (lane < p.head)
		to[lane] = static_cast<char>(source.byte(lane));
	uint32_t i = lane;
	/* The compiler moves no load before a store, which might be to the same place: several are asked for first. */
	for (; i + 32 * (FLYING - 1) < p.units; i += 32 * FLYING) {
		unit flying[FLYING];
#pragma unroll
		for (int k = 0; k < FLYING; k++)
			flying[k] = source.at(p.head + UNIT * (i + 32 * k));
#pragma unroll
		for (int k = 0; k < FLYING; k++)
			*reinterpret_cast<uint4 *>(to + p.head + UNIT * (i + 32 * k)) = words_of(flying[k]);
	}
	for (; i < p.units; i += 32) {
		uint32_t offset = p.head + UNIT * i;
		*reinterpret_cast<uint4 *>(to + offset) = words_of(source.at(offset));
	}
	if (p.tail() + lane < p.bytes)
		to[p.tail() + lane] = static_cast<char>(source.byte(p.tail() + lane));
}

/* Where the fast way does not go: apart, so that it takes no registers from that. */
static __device__ __attribute__((noinline)) void pack_other(leaf l, char *to, unsigned lane)
{
	parts p(to, l.bytes);
	with_source(l, p.head, [&](const auto &source) { copy_out(source, to, p, lane); });
}

/* Two blocks for each multiprocessor, here as below: for newer devices the compiler would rather have four, and spill. */
static __global__ void __launch_bounds__(32 * WARPS, 2)
	pack_kernel(gpu_table table, uint64_t first, uint64_t units, const uint8_t *changed, char *base)
{
	for (uint64_t i = first_unit(); i < units; i += unit_step()) {
		if (changed && !changed[first + i])
			continue;
		leaf l = find_leaf(table, first + i);
		char *to = base + l.span->arena_at + l.at;
		const char *from = l.span->memory + l.span->skip + l.at;
		parts p(to, l.bytes);
		if (!l.span->ndim && reinterpret_cast<uintptr_t>(from + p.head) % UNIT == 0)
			copy_out(packed16{from}, to, p, threadIdx.x % 32);
		else
			pack_other(l, to, threadIdx.x % 32);
	}
}

/* ---- and back ---- */

template <typename T> static __device__ void scatter(const struct gpu_span *span, uint64_t at, const T *parts_of_unit)
{
	row_cursor cursor(span, at);
	enum { N = UNIT / sizeof(T) };
#pragma unroll
	for (int i = 0; i < N; i++) {
		*reinterpret_cast<T *>(cursor.memory + cursor.in_row) = parts_of_unit[i];
		cursor.advance(sizeof(T), i + 1 < N);
	}
}

static __device__ __attribute__((noinline)) void put_unit(const struct gpu_span *span, uint64_t at, const unit &v)
{
	unit_parts parts_of_unit;
	parts_of_unit.whole = v;
	switch (grain_at(span, at)) {
	case 16:
		return scatter(span, at, parts_of_unit.v16);
	case 8:
		return scatter(span, at, parts_of_unit.v8);
	case 4:
		return scatter(span, at, parts_of_unit.v4);
	case 2:
		return scatter(span, at, parts_of_unit.v2);
	default:
		return scatter(span, at, parts_of_unit.v1);
	}
}

static __device__ __attribute__((noinline)) void put_byte(const struct gpu_span *span, uint64_t at, uint8_t v)
{
	row_cursor cursor(span, at);
	cursor.memory[cursor.in_row] = static_cast<char>(v);
}

/* From packed memory into rows. */
template <typename Source>
static __device__ __forceinline__ void copy_rows(const Source &source, const leaf &l, unsigned lane)
{
	uint64_t from = l.span->skip + l.at;
	uint32_t units = l.bytes / UNIT, tail = units * UNIT;
	for (uint32_t i = lane; i < units; i += 32)
		put_unit(l.span, from + UNIT * i, source.at(UNIT * i));
	if (tail + lane < l.bytes)
		put_byte(l.span, from + tail + lane, source.byte(tail + lane));
}

static __device__ __attribute__((noinline)) void unpack_other(leaf l, const char *piece, unsigned lane)
{
	const char *from = piece + l.at, *end = piece + l.span->bytes;
	if (l.span->ndim) {
		with_packed(from, piece, end, 0, [&](const auto &source) { copy_rows(source, l, lane); });
		return;
	}
	char *to = l.span->memory + l.span->skip + l.at;
	parts p(to, l.bytes);
	with_packed(from, piece, end, p.head, [&](const auto &source) { copy_out(source, to, p, lane); });
}

static __global__ void __launch_bounds__(32 * WARPS, 2)
	unpack_kernel(gpu_table table, uint64_t first, uint64_t units, const char *base)
{
	unsigned lane = threadIdx.x % 32;
	for (uint64_t i = first_unit(); i < units; i += unit_step()) {
		leaf l = find_leaf(table, first + i);
		const char *piece = base + l.span->arena_at, *from = piece + l.at;
		char *to = l.span->memory + l.span->skip + l.at;
		parts p(to, l.bytes);
		if (!l.span->ndim && reinterpret_cast<uintptr_t>(from + p.head) % UNIT == 0)
			copy_out(packed16{from}, to, p, lane);
		else
			unpack_other(l, piece, lane);
	}
}

int gpu_pack(const struct gpu_table *table, uint64_t first, uint64_t units, const uint8_t *changed, void *base,
	     unsigned blocks, void *stream)
{
	cudaLaunchConfig_t config = warps_for(units, blocks, stream);
	return units ? cudaLaunchKernelEx(&config, pack_kernel, *table, first, units, changed,
					  static_cast<char *>(base))
		     : cudaSuccess;
}

int gpu_unpack(const struct gpu_table *table, uint64_t first, uint64_t units, const void *base, unsigned blocks,
	       void *stream)
{
	cudaLaunchConfig_t config = warps_for(units, blocks, stream);
	return units ? cudaLaunchKernelEx(&config, unpack_kernel, *table, first, units, static_cast<const char *>(base))
		     : cudaSuccess;
}

int gpu_pack_load(void)
{
	int code = gpu_load(pack_kernel);
	return code ? code : gpu_load(unpack_kernel);
}
