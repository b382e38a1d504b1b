/* Numbers in their order. */
#ifndef CKPT_BASE_DOUBLES_H
#define CKPT_BASE_DOUBLES_H

#include <stddef.h>

/* From the least to the most; none is NAN. */
void doubles_sort(double *values, size_t n);

/* The two between which the median lies; the same where n is odd. */
struct doubles_middle {
	double low, high;
};

/* Of values that may be moved; n is not 0, none is NAN. In a part of the time that sorting takes. */
struct doubles_middle doubles_middle(double *values, size_t n);

#endif
