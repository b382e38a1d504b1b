/* Units: the registered pieces that the shares of a node consist of (shares.h), each once, whichever of its ranks have it. */
#ifndef CKPT_FORMAT_SHARE_UNITS_H
#define CKPT_FORMAT_SHARE_UNITS_H

#include "format/files/share_numbers.h"

struct share_unit {
	uint32_t share; /* its number */
	const struct entry *entry;
	const struct region *region;
	uint64_t first; /* of its elements */
	uint64_t sum;   /* of its name, its type and its place in the tensor: the same on all nodes */
	uint64_t bytes;
	bool divides; /* it is contiguous */
};

/* Of one share: by size of element, name and position, which is an order on all nodes. */
int share_order(const struct entry *a, uint64_t a_first, const struct entry *b, uint64_t b_first);

/* By share, then in that order. Pieces without elements are in no share. 0 or -ENOMEM; *out is the caller's to free. */
int share_units_make(struct share_numbers *numbers, const struct registration *const *regs, uint32_t nregs,
		     struct share_unit **out, size_t *n);

/* As they stand in messages (shares.h): u64 sum, u64 bytes with the highest bit set if the unit is not to be divided. */
enum { SHARE_UNIT_SIZE = 16 };
void share_unit_put(struct wbuf *out, const struct share_unit *unit);
/* Of an array of them. */
void share_unit_get(const uint8_t *units, uint32_t i, uint64_t *sum, uint64_t *bytes, bool *divides);

#endif
