/* Numbers in their order. */
#ifndef CKPT_BASE_DOUBLES_H
#define CKPT_BASE_DOUBLES_H

#include <stddef.h>

/* From the least to the most; none is NAN. */
void doubles_sort(double *values, size_t n);

#endif
