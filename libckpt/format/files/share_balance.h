/* Share balance: how many bytes of each class each of its holders writes, so that those who write most write as little as
 * can be. Classes are taken in turn. Each is poured over its holders, those that write least first, until they write
 * alike. Then again, given what the others came to, as long as that changes something. So a node comes to write more than
 * another holder of a class of which it writes a part only by what cannot be divided. */
#ifndef CKPT_FORMAT_SHARE_BALANCE_H
#define CKPT_FORMAT_SHARE_BALANCE_H

#include <stdint.h>

struct balance_part {
	uint32_t node;
	uint64_t bytes; /* the result; 0, or part_min at least, unless the class is smaller */
};

struct balance_class {
	uint64_t bytes;
	uint32_t first, n; /* its holders: parts[first..first + n) */
};

/* bytes of all classes: below 2^63. 0 or -ENOMEM. */
int share_balance(const struct balance_class *classes, uint32_t nclasses, struct balance_part *parts, uint32_t nnodes,
		  uint64_t part_min);

#endif
