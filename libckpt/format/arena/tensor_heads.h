/* Tensor heads: how a rank knows its tensors: each name, with its dtype and global shape. All ranks of a job must know a
 * tensor alike, whichever pieces of it they hold. Tables are compared by a digest of all heads, and head by head only
 * where two differ. Blobs are none of them (job_blobs.h).
 *
 * A head is listed as two numbers: hashes of the name, and of dtype and shape. Two names may have the same hash, so a
 * difference is told in words first. */
#ifndef CKPT_FORMAT_TENSOR_HEADS_H
#define CKPT_FORMAT_TENSOR_HEADS_H

#include "format/arena/registration.h"

enum { TENSOR_HEAD_SIZE = 16, TENSOR_HEAD_TEXT = 400 };

struct tensor_head {
	uint64_t name, is;
};

/* Of all of them, in order of their names; 0: the rank has no tensor. The table has its index, here and below. */
uint64_t tensor_heads_digest(const struct registration *reg);
/* Those of at most `max` entries from the `first` one on, in that order, encoded behind `out`: u64 name, u64 is. How many
 * it has written; *next: the entry that follows; 0: there is none. */
uint32_t tensor_heads_put(const struct registration *reg, uint32_t first, uint32_t max, struct wbuf *out,
			  uint32_t *next);
struct tensor_head tensor_heads_get(const uint8_t *encoded, uint32_t i);
/* The tensor whose name has the hash; NULL: none. */
const struct entry *tensor_heads_find(const struct registration *reg, uint64_t name);
/* "F32 [1000, 10]"; cut when too long. Returns dst. */
char *tensor_head_text(const struct entry *tensor, char *dst, size_t size);

#endif
