/* Whether what ranks hold alike is alike, for one save on all nodes. Nodes tell one sum of each set of replicas
 * (peer_replica_digests). If the sums of a set differ, they are asked for the sums of 32 parts of it, then of the first
 * part that differs, and so on. In the end it is one piece of one tensor, and they tell the digest of each rank. Of three
 * ranks or more, more than half that agree are right, and the others are named.
 *
 * Memory and messages are a few bytes for each set that a node holds, while nothing differs. Ranks that do not take part
 * are not compared. */
#ifndef CKPTD_COORDINATOR_DIVERGENCE_H
#define CKPTD_COORDINATOR_DIVERGENCE_H

#include "coordinator/coordinator_private.h"

struct coord_divergence;

/* What a node tells, in any number of messages; again does no harm. *v is made at the first time. 0, -ENOMEM, or -E2BIG:
 * all nodes hold more than REPLICA_DIGESTS_MAX different ones. */
enum { REPLICA_DIGESTS_MAX = 1 << 18 };
int coord_divergence_add(const struct coord *c, struct coord_divergence **v,
			 const struct peer_replica_digests *replica_digests);
/* All have told (v NULL: nobody has). 0: it is alike. -EAGAIN: it is not, and all nodes are asked about it. They may
 * answer before this returns, and what comes of that may free v. Asked again, it begins anew. -EUCLEAN, and why: it is of
 * the same epoch as one in which replicas differed, and later. That has been computed from what was wrong, also where
 * they are alike again. */
int coord_divergence_trust(struct coord *c, struct coord_divergence *v, struct step_id id, char text[WIRE_TEXT_MAX]);
/* 0: it goes on, v may be gone. -EUCLEAN, or -ENOMEM, and why: all has been heard. */
int coord_divergence_heard(struct coord *c, struct coord_divergence *v, uint32_t node, const struct peer_compared *m,
			   char text[WIRE_TEXT_MAX]);
/* A question has not been answered for so long, by this node (COORD_NOBODY: by one that is not there). v NULL: there is
 * none. */
bool coord_divergence_overdue(const struct coord *c, const struct coord_divergence *v, uint64_t ns, uint32_t *node);
void coord_divergence_free(struct coord_divergence *v); /* NULL is allowed */

/* The sentence, of n ranks that hold this (sorted here). */
void coord_divergence_result(struct peer_sum *ranks, uint32_t n, const char *tensor, char text[WIRE_TEXT_MAX]);

#endif
