/* The kernels, as the rest of the device layer calls them: plain C, device memory as pointers, streams as void *. Each gives what its
 * CPU reference gives, bit by bit:
 *
 *	gpu_digest    digest_leaves of span_pack      (format/tensor/digest.h, kernels.h)
 *	gpu_pieces    digest_piece
 *	gpu_pack      span_pack
 *	gpu_unpack    span_unpack
 *	gpu_planes    planes_split, for all planes    (format/files/planes.h)
 *
 * Launches return at once with 0 or the vendor's code. */
#ifndef CKPT_KERNELS_GPU_KERNELS_H
#define CKPT_KERNELS_GPU_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { GPU_NDIM_MAX = 8, GPU_LEAF = 65536 };

/* A simplified span (span_simplify) as the kernels read it. */
struct gpu_span {
	char *memory;
	uint64_t bytes;    /* of the packed part */
	uint64_t skip;     /* in front of it in the image */
	uint64_t arena_at; /* of the part, from the base of gpu_pack and gpu_unpack */
	uint64_t row_bytes;
	uint64_t first_leaf;
	uint64_t count[GPU_NDIM_MAX];
	int64_t stride[GPU_NDIM_MAX];
	uint32_t ndim;
	uint32_t grain; /* 1, 2, 4, 8 or 16: memory, rows, and strides are multiples of it */
};

/* Spans in device memory. A unit is a leaf of a span: before[i] of them come before span i, before[n] are all. A span without bytes
 * has none. */
struct gpu_table {
	const struct gpu_span *spans;
	const uint64_t *before; /* n + 1 */
	uint64_t n;
};

/* They work on units first … first + units - 1. blocks: at most so many thread blocks; they take the units in turn. */

/* leaves[span.first_leaf + i] = digest of leaf i of the span. changed: NULL, or changed[unit] = 1 where another digest stood there, 0
 * where the same did. */
int gpu_digest(const struct gpu_table *table, uint64_t first, uint64_t units, uint64_t *leaves, uint8_t *changed,
	       unsigned blocks, void *stream);
/* out[2 i], out[2 i + 1] = low, high half of the digest of piece i, whose digests are leaves[first_leaf …]. */
int gpu_pieces(const struct gpu_table *table, const uint64_t *leaves, uint64_t *out, unsigned blocks, void *stream);
/* The packed bytes of every span to base + arena_at, which the device can write to. changed: NULL, or units for which it is 0 are left
 * out. */
int gpu_pack(const struct gpu_table *table, uint64_t first, uint64_t units, const uint8_t *changed, void *base,
	     unsigned blocks, void *stream);
int gpu_unpack(const struct gpu_table *table, uint64_t first, uint64_t units, const void *base, unsigned blocks,
	       void *stream);
/* n elements of `size` (1, 2, 4, 8) bytes into `size` planes of n bytes, one behind the other. Elements may stand anywhere. */
int gpu_planes(const void *elements, uint64_t n, unsigned size, void *planes, unsigned blocks, void *stream);

/* value to at, in width (4, 8) bytes, behind all that is before it on the stream, as the host sees it. */
int gpu_tell(void *at, uint64_t value, unsigned width, void *stream);

/* Loads what a save or a restore launches on the current device. A code that says so where no code fits the device. */
int gpu_digest_load(void);
int gpu_pack_load(void);
int gpu_tell_load(void);

#ifdef __cplusplus
}
#endif

#endif
