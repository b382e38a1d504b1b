#include "coordinator/restore/node_ranks.h"

#include <errno.h>
#include <stdlib.h>

/* first[n + 1] is moved from where the ranks of node n begin to where they end. */
int node_ranks_make(struct node_ranks *of, uint32_t nnodes, uint32_t world, const uint32_t *owners)
{
	*of = (struct node_ranks){.first = calloc(nnodes + 2ull, sizeof(*of->first)),
				  .ranks = calloc(world + 1ull, sizeof(*of->ranks))};
	if (!of->first || !of->ranks) {
		node_ranks_free(of);
		return -ENOMEM;
	}
	for (uint32_t r = 0; r < world; r++)
		if (owners[r] < nnodes)
			of->first[owners[r] + 2]++;
	for (uint32_t n = 0; n < nnodes; n++)
		of->first[n + 2] += of->first[n + 1];
	for (uint32_t r = 0; r < world; r++)
		if (owners[r] < nnodes)
			of->ranks[of->first[owners[r] + 1]++] = r;
	return 0;
}

void node_ranks_free(struct node_ranks *of)
{
	free(of->first);
	free(of->ranks);
	*of = (struct node_ranks){0};
}
