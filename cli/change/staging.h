/* A directory that appears complete or not at all: it is filled beside its place under a name of its own and moved there at the
 * end. What a killed run left is cleared by the next one for the same place. */
#ifndef CKPT_CLI_STAGING_H
#define CKPT_CLI_STAGING_H

#include "base/err.h"

#include <stdint.h>

enum { STAGING_NAME_MAX = 256 };

struct staging {
	int parent, dir;              /* descriptors */
	char place[STAGING_NAME_MAX]; /* last part of the path, in the parent */
	char name[STAGING_NAME_MAX];  /* of the directory that is filled, in the parent */
};

/* path must not exist, or be an empty directory: -EEXIST. -EINVAL: it is within a repository. -ENOENT: its parent does not exist.
 * -EWOULDBLOCK: another process fills the same place. */
int staging_open(const char *path, struct staging *s, struct err *err);
/* Bytes free where it is. */
int staging_space(const struct staging *s, uint64_t *free_bytes, struct err *err);
/* Removes all files that are in it, to begin again. */
int staging_clear(const struct staging *s, struct err *err);
/* Moves it to its place, durably. The files in it are already synced. */
int staging_publish(const struct staging *s, struct err *err);
/* Removes it unless it was published, and releases everything. */
void staging_close(struct staging *s);

#endif
