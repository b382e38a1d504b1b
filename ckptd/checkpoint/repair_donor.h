/* Repair donor: what is still in memory of a checkpoint, as a donor for its repair (store/check/repair.h). Holds the
 * arenas, not their slots: a slot that is captured into meanwhile gives bytes that do not match, and nobody believes
 * bytes without their digests. */
#ifndef CKPTD_CHECKPOINT_REPAIR_DONOR_H
#define CKPTD_CHECKPOINT_REPAIR_DONOR_H

#include "store/check/repair.h"

struct memory;
struct part_layout;

struct donor {
	uint32_t nparts;
	struct part_layout *layout; /* a reference: what the node wrote of it; NULL: all of it */
	struct donor_part {
		struct memory *mem; /* a reference; NULL: not here */
		uint32_t slot;
	} * parts;
};

/* On the loop's thread. */
void donor_drop(struct donor *donor);
/* repair_memory.read; arg is the repair donor. On any thread. */
int donor_read(void *arg, const struct manifest_file *file, uint64_t from, uint64_t len, void *buf);

#endif
