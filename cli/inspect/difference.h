/* The difference of two equally long runs of elements, as numbers: how many differ, by how much at most and where, and which are
 * no numbers. Elements differ when their bytes do: two NaNs of the same bytes are alike, 0 and -0 are not. */
#ifndef CKPT_CLI_DIFFERENCE_H
#define CKPT_CLI_DIFFERENCE_H

#include "format/tensor/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* An extreme: NaN and infinite elements take no part in it. */
struct extreme {
	bool known;
	double value, a, b; /* of complex numbers: the moduli */
	uint64_t at;        /* index of the element */
};

/* All zero: nothing compared. Counts are of differing elements only. */
struct difference {
	uint64_t elements;
	uint64_t first;          /* index of the first one, when there is any */
	struct extreme abs, rel; /* |a-b|, and |a-b| / max(|a|,|b|), which is at most 2 */
	uint64_t nan_a, nan_b;   /* elements that are NaN in a, in b */
	uint64_t inf_a, inf_b;
	bool odd;        /* some differing element is NaN or infinite in b ... */
	uint64_t odd_at; /* ... and this is the first one */
};

/* Compares n elements; indices count from 0. Adds nothing to what was there. */
void difference_of(enum dtype dtype, const void *a, const void *b, uint64_t n, struct difference *d);
/* Adds `part`, whose indices `place` translates; places grow with the index. */
void difference_add(struct difference *total, const struct difference *part,
		    uint64_t (*place)(const void *arg, uint64_t at), const void *arg);

#endif
