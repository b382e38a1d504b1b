/* Witnesses: digests of all that a rank holds of replicated tensors. Of what several ranks hold alike a snapshot keeps
 * one copy, cut out of all of them, so that none of its digests says whether they are alike. So each rank digests the
 * whole of each such piece, leaf by leaf as in digest.h, when it captures its share; the leaves stand in the slot's table
 * of leaves, behind those of what is captured. A piece that the rank captures whole has its leaves there already.
 *
 * Ranks are compared that hold a set alike: all pieces that are registered under one replica group, with the same names, types, shapes and
 * regions. What they are is a pure function of registration and layout, the same in the rank and in the daemon. */
#ifndef CKPT_FORMAT_WITNESS_H
#define CKPT_FORMAT_WITNESS_H

#include "format/arena/layout.h"

enum { WITNESS_SETS_MAX = 256 }; /* of a rank that is compared */

struct witness_piece {
	uint32_t entry, source; /* of the registration */
	uint64_t first_leaf;    /* in the slot's table of leaves */
	uint64_t nleaves;
	bool own; /* not captured whole: its leaves are digested for this alone */
};

struct witness_set {
	uint64_t id;       /* the same on all ranks that hold it */
	uint32_t first, n; /* its pieces */
};

struct witnesses {
	uint32_t npieces, nsets;
	struct witness_piece *pieces; /* by set, then by name and position */
	struct witness_set *sets;
};

/* Whether the ranks that register it are compared. */
bool witness_wanted(const struct entry *entry);
/* Leaves behind those of the layout: layout.nwitnesses, for layout_derive. */
uint64_t witness_leaves(const struct registration *reg, const struct layout *layout);
/* 0 or -ENOMEM. */
int witnesses_make(const struct registration *reg, const struct layout *layout, struct witnesses *out);
void witnesses_free(struct witnesses *w);

/* sums[npieces] out of a slot's table of leaves. */
void witness_sums(const struct witnesses *w, const uint64_t *leaves, uint64_t *sums);
/* Of n of them. */
uint64_t witness_sum(const uint64_t *sums, uint32_t n);

#endif
