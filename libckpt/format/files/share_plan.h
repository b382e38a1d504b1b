/* Share plan: who writes what of mixed shares (shares.h). Pieces that the same nodes hold are a class. Its bytes are
 * divided between these nodes: each piece is written once, and no node writes more than another that could have written
 * it, as far as that goes:
 *
 *  - a part of a class is SHARE_PART_MIN or more. A smaller class is written by one node;
 *  - a boundary between parts is at the nearest leaf of a piece, or, if that is not contiguous, at one of its ends.
 *
 * A pure function of what the nodes hold and of their order. */
#ifndef CKPT_FORMAT_SHARE_PLAN_H
#define CKPT_FORMAT_SHARE_PLAN_H

#include "base/err.h"
#include "format/files/shares.h"

/* Registered pieces of all shares that differ, taken together. */
#define SHARE_PLAN_MAX (1u << 20)

struct share_planning {
	uint32_t n; /* nodes */
	const struct shares *const *shares;
	const uint32_t *mixed, *first; /* of shares_mixed(); of the latter, the units are listed */
	uint64_t part_min;             /* SHARE_PART_MIN, or smaller in tests */
};

/* runs[i]: the encoded runs of node i, appended; *parts[i] refers to them. 0, -ENOMEM; -E2BIG: there are too many pieces;
 * -EBADMSG: what a node has listed is not what it holds. */
int share_plan_make(const struct share_planning *p, struct wbuf *const *runs, struct share_parts *const *parts,
		    struct err *err);

#endif
