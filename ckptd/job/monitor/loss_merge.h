/* Loss merge: what the ranks of this node have handed over (ckpt_beat_loss), put together step by step. For each step it
 * is the median of the ranks that told of it, so that one unusual batch does not count. What is no number comes at once,
 * and by itself, also of a step that was given out without it.
 *
 * A step is waited for until every rank that tells of losses in the epoch has told of it, or of a later one. A rank that
 * has stopped telling holds up the others for half of what an arena keeps, and no longer. Within an epoch a rank may go
 * back to an earlier step: these steps come again, in another turn. */
#ifndef CKPTD_JOB_LOSS_MERGE_H
#define CKPTD_JOB_LOSS_MERGE_H

#include "format/arena/losses.h"
#include "format/message/wire.h"

/* In the order in which they are made. */
struct loss_place {
	uint32_t epoch, turn;
	uint64_t step;
};

struct loss_rank {
	bool known;            /* it has told of one */
	struct loss_said said; /* the last */
	/* private */
	struct loss_place at; /* of it */
	bool waits;           /* it has not been given out */
	uint64_t next;
};

struct loss_merge {
	struct loss_rank ranks[WIRE_LOCAL_MAX];
	/* private */
	uint32_t since; /* what is left of earlier epochs was for somebody else; 0: not known yet */
	struct loss_place last;
};

struct loss_merged {
	uint32_t epoch;
	uint64_t step;
	double value;  /* the median; or what is no number, of the rank below */
	double norm;   /* negative: nobody told */
	uint32_t rank; /* its index; else UINT32_MAX */
};

/* The next step. losses: of each of the n ranks; NULL: it has none. False: there is none (any more). */
bool loss_merge_next(struct loss_merge *m, uint32_t epoch, const struct arena_losses *const *losses, uint32_t n,
		     struct loss_merged *out);

#endif
