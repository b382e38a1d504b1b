/* Neighbours: which nodes look after a node. All stand in a ring, in an order that has nothing to do with racks and
 * rosters. Each looks after the next one and the one before it with which it has a session. So each node is looked after
 * by two, with which nothing but chance has it fail together, and what that costs does not grow with the cluster. Nobody
 * has to agree on anything: where two see other nodes, one is looked after by one more or by one less for that long.
 * Pure. */
#ifndef CKPTD_LINK_NEIGHBOURS_H
#define CKPTD_LINK_NEIGHBOURS_H

#include <stdbool.h>

enum { NEIGHBOURS = 2 };
#define NEIGHBOUR_NONE (~0u)

/* Of those among n nodes that there is a session with: the next one, and the one before, which may be the same. */
void neighbours_find(unsigned n, unsigned self, bool (*there)(const void *arg, unsigned node), const void *arg,
		     unsigned out[NEIGHBOURS]);

#endif
