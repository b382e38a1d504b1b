/* Digests of the format. A leaf is 64 KiB of a piece's packed bytes. Leaves restart at every piece, so that a digest
 * means the same on every rank, at every world size, on a device and in a file.
 *   leaf digest  = XXH3-64 (seed 0) of the leaf's bytes (the last leaf of a piece may be short)
 *   piece digest = XXH3-128 (seed 0) of its leaf digests written as little-endian u64
 *   digest of a file of metadata = XXH3-128 of its bytes
 * Text form: 32 lower-case hexadecimal digits, XXH128's canonical (big-endian) order.
 * All functions are pure and thread-safe; XXH3 is dispatched at run time to AVX2 or AVX-512. */
#ifndef CKPT_FORMAT_DIGEST_H
#define CKPT_FORMAT_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEAF_SIZE 65536u

struct digest {
	uint64_t low, high;
};

enum { DIGEST_TEXT = 33 };

static inline uint64_t leaf_count(uint64_t bytes)
{
	return bytes / LEAF_SIZE + (bytes % LEAF_SIZE != 0);
}

/* Digest of at most LEAF_SIZE bytes. */
uint64_t digest_leaf(const void *data, size_t len);
/* Digests of all leaves of a packed piece; leaves has room for leaf_count(bytes). */
void digest_leaves(const void *data, uint64_t bytes, uint64_t *leaves);
struct digest digest_piece(const uint64_t *leaves, uint64_t count);
struct digest digest_bytes(const void *data, size_t len);

bool digest_equal(struct digest a, struct digest b);
void digest_text(struct digest d, char text[DIGEST_TEXT]);
/* 0, or -EINVAL unless exactly 32 lower-case hexadecimal digits. */
int digest_parse(const char *text, struct digest *d);

#endif
