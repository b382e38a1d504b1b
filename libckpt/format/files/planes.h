/* Byte planes: plane p of n elements of `size` bytes (1, 2, 4 or 8) is byte p of each. */
#ifndef CKPT_FORMAT_PLANES_H
#define CKPT_FORMAT_PLANES_H

#include <stdint.h>

/* One plane out of the elements. */
void planes_split(const void *elements, uint32_t n, unsigned size, unsigned plane, uint8_t *dst);
/* The elements out of `size` planes. */
void planes_join(const uint8_t *const planes[], uint32_t n, unsigned size, void *elements);

#endif
