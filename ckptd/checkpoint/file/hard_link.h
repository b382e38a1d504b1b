/* Hard link: one file of an earlier checkpoint becomes a file of this one, as a small state machine over the disk. The earlier one may be
 * removed at any instant meanwhile (renamed, then unlinked name by name, never cut): either the link is there, or nothing is.
 *
 *   LINK → OPEN → CHECK → FSYNC → CLOSE → DONE
 *   LINK or OPEN fails, or CHECK finds another size → (CLOSE →) UNLINK → DONE: it is to be written */
#ifndef CKPTD_CHECKPOINT_FILE_HARD_LINK_H
#define CKPTD_CHECKPOINT_FILE_HARD_LINK_H

#include "store/disk/disk.h"

enum hard_link_state {
	HARD_LINK_LINK = 1,
	HARD_LINK_OPEN,
	HARD_LINK_CHECK,
	HARD_LINK_FSYNC, /* its bytes were confirmed long ago: this is for the file system that thinks otherwise */
	HARD_LINK_CLOSE,
	HARD_LINK_UNLINK,
	HARD_LINK_DONE
};

struct hard_link {
	/* set by the caller; must live until done */
	struct disk *disk;
	int from, dir;    /* handles of the earlier directory and of this one */
	const char *name; /* in both */
	uint64_t size;    /* that it must have, at least 1 */
	void (*done)(struct hard_link *l);
	void *arg;

	/* the result */
	enum hard_link_state state;
	int rc; /* 0: linked; -ENOLINK: it cannot be, nothing has this name and it is to be written; others: storage fails */

	/* private */
	int file;
	char tail[2];
	struct disk_op op;
};

/* Starts; `done` is called once, from disk_poll. */
void hard_link_start(struct hard_link *l);

#endif
