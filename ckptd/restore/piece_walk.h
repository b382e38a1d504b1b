/* Piece walk: the elements of a wanted region, each once, out of pieces that may overlap. Each node divides by itself
 * what the ranks of several nodes hold alike. So volumes alone do not tell whether all of it is there. */
#ifndef CKPTD_RESTORE_PIECE_WALK_H
#define CKPTD_RESTORE_PIECE_WALK_H

#include "format/tensor/region.h"

struct walk_source {
	const struct region *region;
	uint32_t part; /* whose it is: the caller's */
	uint32_t piece;

	/* private */
	struct overlap overlap;
	struct region_run run;
};

/* Calls fn (NULL: nobody) for runs that follow each other in the wanted region, each out of the first source that has its
 * beginning. Returns how many of the `volume` elements none of them has. Changes the order of no sources but those that
 * have nothing of the region: they go. */
uint64_t piece_walk(const struct shape *shape, const struct region *wanted, uint64_t volume,
		    struct walk_source *sources, size_t n,
		    void (*fn)(void *arg, const struct walk_source *source, const struct region_run *run), void *arg);

#endif
