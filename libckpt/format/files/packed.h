/* A packed data file, "….ckptz": what a safetensors file holds, with its data section in chunks that are compressed plane by plane.
 *
 *   index    index_size bytes, a multiple of LAYOUT_ALIGN, little-endian:
 *     char magic[8] = "CKPTPCK1"; u32 chunk_max = 1048576; u32 reserved = 0;
 *     u64 nchunks; u64 data_at; u64 data_size;   of the safetensors file
 *     u64 size;                                  of this file
 *     u64, u64 reserved = 0
 *     nchunks × { u64, u64 digest; u32 plain; u8 planes; u8 packed; u16 reserved = 0; u32 stored[8] }
 *     zeros; u64 self_low, self_high in the last 16 bytes: XXH3-128 of everything before
 *   header   the safetensors file's first data_at bytes, as they are
 *   chunks   end to end, each padded with zeros to a multiple of LAYOUT_ALIGN
 *
 * A chunk is whole leaves that follow each other, `plain` bytes of the data section, at most chunk_max. Plane p is byte p of each of its
 * elements of `planes` bytes (1, 2, 4 or 8): the last one has sign and exponent. The planes stand one after another, stored[p] bytes
 * each: one zstd frame where bit p of `packed` is set, else the bytes themselves. `digest` is the XXH3-128 of the chunk as it is stored,
 * with its zeros. Leaves keep the digests of their plain bytes, and pieces their places: what speaks of a place in a data file means the
 * safetensors file. */
#ifndef CKPT_FORMAT_PACKED_H
#define CKPT_FORMAT_PACKED_H

#include "base/bytes.h"
#include "base/err.h"
#include "format/tensor/digest.h"

enum {
	PACKED_CHUNK = 1 << 20,
	PACKED_PLANES = 8,
	PACKED_CHUNKS_MAX = 1 << 22, /* an index of 224 MiB: larger files are not packed */
};

struct packed_chunk {
	uint64_t data_at;     /* of its first byte in the data section */
	uint64_t at;          /* in the packed file */
	uint32_t plain;       /* bytes of the data section */
	uint32_t bytes;       /* in the packed file, with the zeros */
	struct digest digest; /* of these */
	uint8_t planes, packed;
	uint32_t stored[PACKED_PLANES];
};

struct packed_index {
	uint64_t size, index_size;   /* of the packed file, of its index */
	uint64_t data_at, data_size; /* of the safetensors file */
	uint32_t nchunks;
	struct packed_chunk *chunks;
};

/* Bytes of an index. */
uint64_t packed_index_size(uint64_t nchunks);
/* No index of a data section of so many bytes is larger: readers refuse more before they allocate anything. */
uint64_t packed_index_max(uint64_t data_size);
/* Cuts a data section into chunks, full as far as whole leaves allow: data_at, plain and planes of each; the rest is what chunk_pack
 * finds. piece: bytes, and bytes per element, of piece i. -ENOMEM, or -E2BIG: more than PACKED_CHUNKS_MAX; then *index is empty. */
int packed_plan(uint32_t npieces, void (*piece)(const void *arg, uint32_t i, uint64_t *bytes, unsigned *planes),
		const void *arg, struct packed_index *index);
/* Sets at, data_at, bytes and the sizes of the whole, from what the chunks say of themselves. */
void packed_index_place(struct packed_index *index);
/* `out` is empty. 0 or -ENOMEM. */
int packed_index_encode(const struct packed_index *index, struct wbuf *out);
/* -EBADMSG with the reason; -EPROTONOSUPPORT: another version; -ENOMEM; then *index is empty. */
int packed_index_decode(const void *data, size_t len, struct packed_index *index, struct err *err);
void packed_index_free(struct packed_index *index);
/* The chunk that holds [at, at + len) of the data section; NULL: no chunk has all of it. */
const struct packed_chunk *packed_find(const struct packed_index *index, uint64_t at, uint64_t len);

#endif
