/* The documents of one node's part of a checkpoint, from what was written: for whoever writes checkpoints (the daemon's commit, an
 * import). */
#ifndef CKPT_FORMAT_MANIFEST_MAKE_H
#define CKPT_FORMAT_MANIFEST_MAKE_H

#include "format/files/manifest.h"

/* A data file that was written, by file `file` of a rank's layout. Borrowed. */
struct made_file {
	const struct registration *reg;
	const struct layout *layout;
	uint32_t file;
	uint64_t data_at;           /* bytes of its header block */
	const struct wbuf *sidecar; /* encoded */
	struct manifest_packed packed;
};

struct made_node {
	const char *job, *node;
	struct step_id id;
	uint32_t began;
	uint32_t world, nfiles;
	const struct made_file *files; /* those of a rank stand next to each other */
};

/* Encodes the node manifest into *text (empty); entries of all ranks under one name are one tensor. With `root` not NULL also the
 * MANIFEST.json of a job that has no other node. -ENOMEM, -E2BIG, -EINVAL. */
int manifest_make(const struct made_node *made, struct wbuf *text, struct wbuf *root, struct err *err);

#endif
