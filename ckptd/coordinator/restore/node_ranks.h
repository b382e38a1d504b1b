/* Node ranks: which ranks each node has, in order, of a table that says by rank which node that is. For who goes through the ranks of all
 * nodes: to look through the table for each node would take nodes times ranks. */
#ifndef CKPTD_COORDINATOR_NODE_RANKS_H
#define CKPTD_COORDINATOR_NODE_RANKS_H

#include <stdint.h>

struct node_ranks {
	uint32_t *first; /* by node, and one more: where its ranks begin in `ranks` */
	uint32_t *ranks;
};

/* Those of a node that is none of nnodes are nobody's. -ENOMEM. */
int node_ranks_make(struct node_ranks *of, uint32_t nnodes, uint32_t world, const uint32_t *owners);
void node_ranks_free(struct node_ranks *of);

#endif
