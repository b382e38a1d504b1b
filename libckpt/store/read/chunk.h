/* The codec of packed files: one chunk (format/files/packed.h) from and to its bytes. A packer and an unpacker belong to one thread at a
 * time. */
#ifndef CKPT_STORE_CHUNK_H
#define CKPT_STORE_CHUNK_H

#include "format/files/packed.h"

struct chunk_packer;
struct chunk_unpacker;

/* Bytes that chunk_pack may write for a chunk of so many. */
uint64_t chunk_bound(uint64_t plain);

/* About 1.6 MiB. -ENOMEM. */
int chunk_packer_new(struct chunk_packer **out);
void chunk_packer_free(struct chunk_packer *packer);
/* Packs `plain` bytes of elements of `planes` bytes (whole elements; at most PACKED_CHUNK bytes) into out and fills *c;
 * its data_at stays, and `at` is to be set. A plane that would not shrink by a sixteenth is stored as it is. The same
 * input gives the same bytes with the same version of zstd. */
void chunk_pack(struct chunk_packer *packer, const void *data, uint32_t plain, unsigned planes, struct packed_chunk *c,
		uint8_t *out);

enum { CHUNK_UNPACKER = 9 << 18 }; /* bytes that an unpacker takes, about */

/* -ENOMEM. */
int chunk_unpacker_new(struct chunk_unpacker **out);
void chunk_unpacker_free(struct chunk_unpacker *unpacker);
/* Checks `stored` (c->bytes of them) against its digest and gives the plain bytes, valid until the next call with another `stored` or
 * another chunk: the same again costs nothing. c is one that packed_index_decode has let through. -EBADMSG says why not. */
int chunk_unpack(struct chunk_unpacker *unpacker, const struct packed_chunk *c, const void *stored,
		 const uint8_t **plain, struct err *err);
/* The memory at the place of `stored` is about to change. */
void chunk_forget(struct chunk_unpacker *unpacker);

#endif
