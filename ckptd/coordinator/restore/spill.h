/* Spill: private to coordinator/restore/spill.c. */
#ifndef CKPTD_COORDINATOR_SPILL_H
#define CKPTD_COORDINATOR_SPILL_H

#include "coordinator/coordinator_private.h"

/* What one node's ranks had: which node writes it, and how far that node is. */
struct coord_spiller {
	uint32_t writer; /* COORD_NOBODY: there is nothing to write, or that node is lost */
	bool answered;   /* to the order that runs */
	struct node_holdings holdings;
	struct peer_part made;
};

/* The node from which the newest copies of a rank came. */
struct coord_sender {
	uint32_t node;
	struct step_id id; /* epoch 0: nobody holds any */
};

#define each_owner(c, o)                                                                                               \
	for (uint32_t o = 0; o < (c)->nnodes; o++)                                                                     \
		if ((c)->spill.owners[o].writer != COORD_NOBODY)

#endif
