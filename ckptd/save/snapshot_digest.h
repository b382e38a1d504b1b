/* Digests of what a snapshot has of one rank: made by workers while the copy arrives, then compared with those of its source. */
#ifndef CKPTD_SAVE_SNAPSHOT_DIGEST_H
#define CKPTD_SAVE_SNAPSHOT_DIGEST_H

#include "save/snapshot.h"

/* Has what has arrived digested, as far as it is worth an item; complete: all of it. 0, or -ENOMEM. */
int snapshot_digest_arrived(struct snapshot *s, struct part *part, bool complete);
/* Of the replicas in it, once: when it has been copied, its witnesses are there. 0, -ENOMEM, or -E2BIG: of more groups
 * than can be compared. */
int snapshot_digest_replicas(struct snapshot *s, struct part *part);
/* Bytes of the slot, from its start, of which all is digested. If what is written of them
 * later is something else, the checkpoint does not match its digests. */
uint64_t snapshot_digested(struct part *part);
/* All leaves are digested. The part is PART_DIGESTED then, or the snapshot has failed. */
void snapshot_compare_digests(struct snapshot *s, struct part *part);

#endif
