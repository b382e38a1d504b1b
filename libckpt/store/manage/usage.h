/* What files take, with hard links counted once: a group of tensors that has not changed is the same file in several
 * checkpoints. */
#ifndef CKPT_STORE_USAGE_H
#define CKPT_STORE_USAGE_H

#include "store/read/repo.h"

/* Files that have several names and were counted. All zero: none. */
struct usage_seen {
	struct usage_key {
		uint64_t dev, ino;
	} * keys; /* open addressing; ino 0: free */
	size_t n, cap;
};

struct usage {
	uint64_t files;    /* names */
	uint64_t apparent; /* bytes that they show */
	uint64_t real;     /* bytes of blocks on storage, of files that were not seen before */
	uint64_t shared;   /* names of files that have several */
};

/* Adds the files of a directory (not those of directories in it) to *u, and remembers them. -ENOMEM, or what listing says. */
int usage_add(struct usage_seen *seen, struct repo *repo, int dir, struct usage *u, struct err *err);
void usage_free(struct usage_seen *seen);

#endif
