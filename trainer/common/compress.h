/*
 * Gradients made smaller before they travel, with error feedback: what the packed form leaves out is kept, and added to the next gradient.
 * So nothing is lost for good, but what is kept belongs to the state of the rank: who goes on from a checkpoint without it goes on
 * with other bits.
 *
 * Blocks of COMPRESS_BLOCK elements are packed on their own, into floats that no arithmetic touches:
 *	int8    a scale, and 256 bytes: 3.9 times smaller
 *	topk    the eight of largest magnitude and where they are: 25.6 times
 *	1bit    the mean magnitude, and 256 signs: 28.4 times
 * The same input gives the same bits on every CPU. A block with a NaN or an infinity unpacks to NaN.
 */
#ifndef CKPT_TRAINER_COMPRESS_H
#define CKPT_TRAINER_COMPRESS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum compress_kind { COMPRESS_NONE = 0, COMPRESS_INT8, COMPRESS_TOPK, COMPRESS_1BIT };

enum { COMPRESS_BLOCK = 256, COMPRESS_TOP = 8 };

/* By its name, "none" among them; -EINVAL: there is no such. */
int compress_kind_of(const char *name, enum compress_kind *kind);

/* Floats that a block becomes. */
size_t compress_block_floats(enum compress_kind kind);
/* Floats that `count` elements become: a multiple of 16, so that ranks' parts are shards (shard.h) of what all of them make. */
size_t compress_size(enum compress_kind kind, size_t count);

/* Packs from[count] + residual[count] into to[compress_size()], and puts what that misses into left[count], which may be residual. */
void compress_pack(enum compress_kind kind, const float *from, const float *residual, size_t count, float *to,
		   float *left);

/* Adds elements [begin, end) of what was packed to sum[begin, end). */
void compress_add(enum compress_kind kind, const float *packed, size_t begin, size_t end, float *sum);

#ifdef __cplusplus
}
#endif

#endif
