/* Only planes whose bytes are unevenly spread are given to zstd, at a level at which it looks for repetitions hardly at all, but with
 * its Huffman coder, which the fast levels leave out: that is what pays for the exponents of weights, and all that does. */
#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_c_literalCompressionMode. A library that does not know it packs a little less */
#include "store/read/chunk.h"

#include "format/arena/layout.h"
#include "format/files/planes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum {
	LEVEL = -100,
	SAMPLES = 4096,  /* of a plane: bytes that are looked at to tell whether it could shrink */
	PLANE_MIN = 256, /* bytes; smaller ones are not worth a frame */
	GAIN = 16,       /* a plane must lose this part of its size */
	MAGIC = 0xfd2fb528,
};

/* Above it no order of the bytes' own helps: a Huffman code of them would not save a GAIN-th. */
#define BITS_MAX 7.45

struct chunk_packer {
	ZSTD_CCtx *zstd;
	uint8_t plane[PACKED_CHUNK]; /* a copy: what is being packed may be changed by another process */
};

struct chunk_unpacker {
	ZSTD_DCtx *zstd;
	const void *stored; /* of which `plain` is made; NULL: of none */
	const struct packed_chunk *chunk;
	uint8_t planes[PACKED_CHUNK], plain[PACKED_CHUNK];
};

uint64_t chunk_bound(uint64_t plain)
{
	return align_up(plain, LAYOUT_ALIGN);
}

/* ---- packing */

int chunk_packer_new(struct chunk_packer **out)
{
	struct chunk_packer *packer = malloc(sizeof(*packer));
	if (!packer)
		return -ENOMEM;
	packer->zstd = ZSTD_createCCtx();
	if (!packer->zstd) {
		free(packer);
		return -ENOMEM;
	}
	ZSTD_CCtx_setParameter(packer->zstd, ZSTD_c_compressionLevel, LEVEL);
	ZSTD_CCtx_setParameter(packer->zstd, ZSTD_c_literalCompressionMode, ZSTD_lcm_huffman);
	ZSTD_CCtx_setParameter(packer->zstd, ZSTD_c_contentSizeFlag, 1);
	*out = packer;
	return 0;
}

void chunk_packer_free(struct chunk_packer *packer)
{
	if (!packer)
		return;
	ZSTD_freeCCtx(packer->zstd);
	free(packer);
}

/* Bits per byte of a code that knows only how often each value occurs, from a sample of the plane. */
static double bits_per_byte(const uint8_t *data, uint32_t n, unsigned size, unsigned plane)
{
	uint32_t count[256] = {0}, step = n > SAMPLES ? n / SAMPLES : 1, seen = 0;
	double bits = 0;
	for (uint32_t i = 0; i < n; i += step, seen++)
		count[data[(uint64_t)i * size + plane]]++;
	for (unsigned v = 0; v < 256; v++)
		if (count[v])
			bits += count[v] * log2((double)seen / count[v]);
	return bits / seen;
}

/* The plane as a zstd frame at dst; 0: it is not worth one. */
static uint32_t pack_plane(struct chunk_packer *packer, const void *data, uint32_t n, unsigned size, unsigned plane,
			   uint8_t *dst)
{
	if (n < PLANE_MIN || bits_per_byte(data, n, size, plane) > BITS_MAX)
		return 0;
	planes_split(data, n, size, plane, packer->plane);
	size_t packed = ZSTD_compress2(packer->zstd, dst, n - n / GAIN, packer->plane, n);
	return ZSTD_isError(packed) ? 0 : (uint32_t)packed;
}

void chunk_pack(struct chunk_packer *packer, const void *data, uint32_t plain, unsigned planes, struct packed_chunk *c,
		uint8_t *out)
{
	uint32_t n = plain / planes, at = 0;
	*c = (struct packed_chunk){.data_at = c->data_at, .plain = plain, .planes = (uint8_t)planes};
	for (unsigned p = 0; p < planes; p++) {
		uint32_t packed = pack_plane(packer, data, n, planes, p, out + at);
		if (packed)
			c->packed |= (uint8_t)(1u << p);
		else
			planes_split(data, n, planes, p, out + at);
		c->stored[p] = packed ? packed : n;
		at += c->stored[p];
	}
	c->bytes = (uint32_t)align_up(at, LAYOUT_ALIGN);
	memset(out + at, 0, c->bytes - at);
	c->digest = digest_bytes(out, c->bytes);
}

/* ---- unpacking */

int chunk_unpacker_new(struct chunk_unpacker **out)
{
	struct chunk_unpacker *unpacker = malloc(sizeof(*unpacker));
	if (!unpacker)
		return -ENOMEM;
	unpacker->zstd = ZSTD_createDCtx();
	unpacker->stored = NULL;
	if (!unpacker->zstd) {
		free(unpacker);
		return -ENOMEM;
	}
	*out = unpacker;
	return 0;
}

void chunk_unpacker_free(struct chunk_unpacker *unpacker)
{
	if (!unpacker)
		return;
	ZSTD_freeDCtx(unpacker->zstd);
	free(unpacker);
}

/* One frame of today's zstd that says what it holds, and nothing else. */
static bool is_one_frame(const uint8_t *src, uint32_t len, uint32_t n)
{
	uint32_t magic = 0;
	memcpy(&magic, src, len < sizeof(magic) ? len : sizeof(magic));
	return magic == MAGIC && ZSTD_getFrameContentSize(src, len) == n &&
	       ZSTD_findFrameCompressedSize(src, len) == len;
}

static bool unpack_planes(struct chunk_unpacker *unpacker, const struct packed_chunk *c, const uint8_t *stored)
{
	const uint8_t *planes[PACKED_PLANES];
	uint32_t n = c->plain / c->planes;
	for (unsigned p = 0; p < c->planes; stored += c->stored[p++]) {
		uint8_t *dst = c->planes == 1 ? unpacker->plain : unpacker->planes + p * n;
		planes[p] = stored;
		if (!(c->packed >> p & 1))
			continue;
		planes[p] = dst;
		if (!is_one_frame(stored, c->stored[p], n) ||
		    ZSTD_decompressDCtx(unpacker->zstd, dst, n, stored, c->stored[p]) != n)
			return false;
	}
	if (planes[0] != unpacker->plain)
		planes_join(planes, n, c->planes, unpacker->plain);
	return true;
}

int chunk_unpack(struct chunk_unpacker *unpacker, const struct packed_chunk *c, const void *stored,
		 const uint8_t **plain, struct err *err)
{
	*plain = unpacker->plain;
	if (unpacker->stored == stored && unpacker->chunk == c)
		return 0;
	unpacker->stored = NULL;
	if (!digest_equal(digest_bytes(stored, c->bytes), c->digest))
		return err_set(err, -EBADMSG, "its stored bytes do not match their digest");
	if (!unpack_planes(unpacker, c, stored))
		return err_set(err, -EBADMSG, "its stored bytes cannot be unpacked");
	unpacker->stored = stored;
	unpacker->chunk = c;
	return 0;
}

void chunk_forget(struct chunk_unpacker *unpacker)
{
	unpacker->stored = NULL;
}
