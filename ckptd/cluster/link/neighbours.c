#include "cluster/link/neighbours.h"

#include <stdint.h>

/* A place in the ring: no two nodes have the same, for each step can be undone (the finalizer of splitmix64). */
static uint64_t place_of(unsigned node)
{
	uint64_t x = node + 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

void neighbours_find(unsigned n, unsigned self, bool (*there)(const void *arg, unsigned node), const void *arg,
		     unsigned out[NEIGHBOURS])
{
	uint64_t here = place_of(self), after = UINT64_MAX, before = UINT64_MAX;
	out[0] = out[1] = NEIGHBOUR_NONE;
	for (unsigned node = 0; node < n; node++) {
		if (node == self || !there(arg, node))
			continue;
		uint64_t place = place_of(node);
		if (place - here < after) {
			after = place - here;
			out[0] = node;
		}
		if (here - place < before) {
			before = here - place;
			out[1] = node;
		}
	}
}
