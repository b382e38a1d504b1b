/* The copy from a piece's packed bytes into a packed destination: the inner loop of every restore. */
#ifndef CKPT_STORE_SCATTER_H
#define CKPT_STORE_SCATTER_H

#include "format/tensor/region.h"

/* Copies the packed elements [from, to) of o's src that are also in its dst. image: the bytes of src from element `from` on; data:
 * the whole packed dst. size: bytes per element. Returns the bytes copied. Costs O(ndim) per row of rows, however short the rows:
 * those that follow each other at equal distances are copied in one loop. */
uint64_t scatter(struct overlap *o, uint64_t from, uint64_t to, unsigned size, const void *image, void *data);

#endif
