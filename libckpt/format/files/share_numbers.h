/* Share numbers: the shares of a node, in the order in which its files begin them (shares.h). */
#ifndef CKPT_FORMAT_SHARE_NUMBERS_H
#define CKPT_FORMAT_SHARE_NUMBERS_H

#include "format/files/shares.h"

/* To be asked of all files of a node, in order. Zeroed at first. */
struct share_numbers {
	uint32_t n;
	uint64_t of[SHARES_MAX];
	bool crowded; /* the last number stands for more than one */
};

static inline uint32_t share_number(struct share_numbers *numbers, uint64_t share)
{
	uint32_t i = 0;
	while (i < numbers->n && numbers->of[i] != share)
		i++;
	if (i < SHARES_MAX) {
		if (i == numbers->n)
			numbers->of[numbers->n++] = share;
		return i;
	}
	numbers->crowded = true;
	return SHARES_MAX - 1;
}

/* All of its pieces are of one share, so that they have an order on all nodes. */
static inline bool share_is_single(const struct share_numbers *numbers, uint32_t i)
{
	return i + 1 < SHARES_MAX || !numbers->crowded;
}

#endif
