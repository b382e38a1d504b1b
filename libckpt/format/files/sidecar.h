/* The sidecar "….xxh": the leaf digests of one data file. Binary, little-endian:
 *   char magic[8] = "CKPTXXH1"; u32 leaf_size = 65536; u32 reserved = 0; u64 npieces; u64 nleaves;
 *   u64 data_at; u64 data_size;           of the data file
 *   u64 header_low, header_high;          XXH3-128 of the data file's first data_at bytes
 *   npieces × { u64 at; u64 bytes; u64 first_leaf; u64 digest_low; u64 digest_high }
 *   nleaves × u64
 *   u64 self_low, self_high;              XXH3-128 of everything before */
#ifndef CKPT_FORMAT_SIDECAR_H
#define CKPT_FORMAT_SIDECAR_H

#include "format/arena/layout.h"

enum { SIDECAR_LEAVES_MAX = 1 << 30 }; /* 64 TiB of data; its sidecar would have 8 GiB */

struct sidecar_piece {
	uint64_t at, bytes;  /* in the data section */
	uint64_t first_leaf; /* in sidecar.leaves */
	struct digest digest;
};

struct sidecar {
	uint64_t data_at, data_size;
	struct digest header;
	uint64_t npieces, nleaves;
	struct sidecar_piece *pieces;
	uint64_t *leaves;
};

/* Bytes of a sidecar. Both counts at most SIDECAR_LEAVES_MAX. */
uint64_t sidecar_size(uint64_t npieces, uint64_t nleaves);
/* Encodes file `file` of the layout; leaves: the digests of all leaves of the rank (layout->nleaves). */
int sidecar_encode(const struct layout *layout, uint32_t file, uint64_t data_at, struct digest header,
		   const uint64_t *leaves, struct wbuf *out);
/* -EBADMSG with the reason; -EPROTONOSUPPORT for another version of the magic; then *sc is empty. Sizes are checked against len
 * before anything is allocated; then the digest of the whole, and that pieces and leaves follow each other without gaps. */
int sidecar_decode(const void *data, size_t len, struct sidecar *sc, struct err *err);
void sidecar_free(struct sidecar *sc);

#endif
