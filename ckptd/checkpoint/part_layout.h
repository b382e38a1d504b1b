/* Part layout: what of each rank's layout a node writes, where it holds things as other nodes do (format/files/shares.h).
 * Made once for the same tables and parts, and kept for the saves to come. Belongs to the loop's thread; what it holds
 * may be read on any. */
#ifndef CKPTD_CHECKPOINT_PART_LAYOUT_H
#define CKPTD_CHECKPOINT_PART_LAYOUT_H

#include "arena/room.h"
#include "format/files/shares.h"

struct node_part_rank;

struct part_layout {
	unsigned refs;
	struct share_parts parts;
	uint32_t nranks;
	struct part_layout_rank {
		struct digest sum; /* of the rank's table */
		struct layout layout;
		struct head_block *heads;
	} * ranks;
};

/* *kept is it if it is of these, else a new one takes its place. 0 or -ENOMEM, -E2BIG; then *kept is as it was. */
int part_layout_make(const struct node_part_rank *ranks, uint32_t n, const struct share_parts *parts,
		     struct part_layout **kept, struct err *err);
struct part_layout *part_layout_get(struct part_layout *p); /* NULL is allowed, as below */
void part_layout_put(struct part_layout *p);
/* That of this memory, which is of rank i of those that it was made for; NULL: it is of another. */
const struct part_layout_rank *part_layout_of(const struct part_layout *p, uint32_t i, const struct memory *mem);

#endif
