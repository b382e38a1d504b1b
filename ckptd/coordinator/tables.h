/* Tables: whether the ranks on all nodes know each tensor alike, which is seen before they enter an epoch together.
 * Within a node that was seen when their arenas were laid out (format/arena/layout.h).
 *
 *	all are ready ──► one digest, or digests that were found to agree ──► they enter
 *	    └─► one rank of each digest lists its tensors, one after the other
 *	            ├─► none is known in two ways: they agree, also in later epochs
 *	            └─► one is: two ranks say how they know it, and all are refused in these words
 *
 * Only ready ranks are asked, and what they answer counts only as long as they are: whoever is ready anew ends it, and it
 * begins again. Of more than TABLES_HEADS_MAX tensors in all the rest is left to the first save to storage
 * (checkpoint/directory_compare.c). */
#ifndef CKPTD_COORDINATOR_TABLES_H
#define CKPTD_COORDINATOR_TABLES_H

#include "base/err.h"
#include "format/message/peer_coord.h"

enum { TABLES_HEADS_MAX = 1 << 20 };

struct tables_comparison;

struct tables {
	uint32_t world;
	uint64_t *of;                  /* by rank: the digest that it was ready with last */
	uint64_t agree;                /* a digest of those that were found to; 0: none were */
	struct tables_comparison *now; /* NULL: none are compared */
};

int tables_init(struct tables *t, uint32_t world); /* or -ENOMEM */
void tables_free(struct tables *t);
void tables_ready(struct tables *t, uint32_t rank, uint64_t digest);

/* When all are ready. 0: they agree. -EINPROGRESS: what is in *ask is to be asked of its rank, unless that was done.
 * -EINVAL: they contradict each other, and are to be refused; -ENOMEM: the same, since that cannot be found out. */
int tables_compare(struct tables *t, struct peer_tensors_ask *ask, struct err *err);
/* What a rank answers. False: it is not what is asked for now, and changes nothing. */
bool tables_hear(struct tables *t, const struct peer_tensors *said);

#endif
