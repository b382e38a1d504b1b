/* Previous: what the job's last committed checkpoint holds. A file that has not changed since is linked to it and not written again.
 * Kept in memory, from the daemon's own last commit: after a restart the first checkpoint is written whole.
 *
 * Whether a file has changed is told by the digest of its sidecar, which covers its header, the places of its pieces and
 * every leaf. The bytes of the previous checkpoint are not read: what was damaged since then is found by reading back. So
 * that one bad block cannot reach all checkpoints to come, a file serves at most full-every of them, then it is written
 * afresh. */
#ifndef CKPTD_CHECKPOINT_PREVIOUS_H
#define CKPTD_CHECKPOINT_PREVIOUS_H

#include "format/files/manifest.h"

struct node_part;

struct previous_file {
	char name[NAME_FILE_MAX]; /* if it were not packed */
	struct digest sidecar;    /* of the encoded sidecar */
	struct manifest_packed packed;
	uint32_t age; /* checkpoints before this one that have the very same file */
	bool steady;  /* it was as in the one before it: likely to stay so */
};

/* All zero: none. */
struct previous {
	bool valid;
	struct step_id id;
	uint32_t nfiles;
	struct previous_file *files; /* in the order of the part's files */
};

/* The part has ended well: it is the previous one of the next. Without memory there is none. */
void previous_take(struct previous *previous, const struct node_part *c);
/* Damage was found, or may be there: nothing is linked to it any more. May be called while a part uses it. */
void previous_forget(struct previous *previous);
void previous_free(struct previous *previous);

/* The file of the previous checkpoint of the same place and name as file i of the part. NULL: there is none. */
const struct previous_file *previous_find(const struct previous *previous, uint32_t i, const char *name);

#endif
