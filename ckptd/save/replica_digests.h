/* Replica digests: what the ranks of this node hold of replicated tensors in one snapshot, so that the coordinator can
 * compare it with what others hold (coordinator/save/divergence.h). The digests come out of the arenas, as the ranks left them
 * there (format/arena/witness.h): a rank that lies about its own, or writes over them, is one that deviates. A rank that
 * left none is not compared. */
#ifndef CKPTD_SAVE_REPLICA_DIGESTS_H
#define CKPTD_SAVE_REPLICA_DIGESTS_H

#include "save/snapshot.h"

/* 1: replica_digests_fill is to be called, on a worker; 0: this rank is not compared; -ENOMEM; -E2BIG: it cannot be. */
int replica_digests_begin(struct part *part);
void replica_digests_fill(struct part *part);

/* What is told of a snapshot when its local parts are captured, each sum once; *out is the caller's. 0 or -ENOMEM. */
int replica_digests_list(const struct snapshot *s, struct peer_replica_digest **out, uint32_t *n);
/* The answer to a question, of a snapshot that is not given up. */
void replica_digests_tell(const struct snapshot *s, const struct peer_compare *ask, struct peer_compared *out);

#endif
