/* Place of a repository: whether its path still leads to the directory that was opened, and whether that is a repository still. What
 * is written through a handle goes on being written after the directory was moved away, or half removed: nobody finds it. */
#ifndef CKPT_STORE_REPO_PLACE_H
#define CKPT_STORE_REPO_PLACE_H

#include "store/disk/disk.h"

enum { REPO_PLACE_PATH_MAX = 4096 };

struct repo_place {
	const char *path; /* NULL: of none */
	char mark_path[REPO_PLACE_PATH_MAX];
	uint64_t dev, ino;     /* of the directory */
	struct disk_stat mark; /* as it was when it was read last */
	struct err trouble;    /* what the last look has found; empty: it is what it was */
};

/* Of the open directory root, which this path leads to; the path must live as long. On failure it is of none. */
int repo_place_init(struct repo_place *place, struct disk *disk, int root, const char *path, struct err *err);
/* A stat, unless the mark has changed: then it is read. -ENOENT: the path leads to no directory, to another one, or to no repository.
 * `trouble` says which, and what to do; err has the same. Others: it could not be looked at. */
int repo_place_check(struct repo_place *place, struct err *err);
/* What another thread has found with a copy of this place. */
void repo_place_found(struct repo_place *place, const struct repo_place *copy);

#endif
