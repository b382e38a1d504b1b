/* Freed: what deleting directories would give back. A file with several names (hard links of a group that has not changed) goes
 * with its last one. */
#ifndef CKPT_STORE_FREED_H
#define CKPT_STORE_FREED_H

#include "store/read/repo.h"

/* All zero: nothing was added. */
struct freed {
	struct freed_name {
		uint64_t dev, ino, links, bytes;
		size_t owner;
	} * names;
	size_t n, cap;
};

/* Adds the files of a directory of the job: they go with `owner`, a number of the caller's. One that is not there adds nothing. */
int freed_add(struct freed *f, struct repo *repo, const char *job, const char *dir, size_t owner, struct err *err);
/* Bytes on storage that go when all that was added goes; by_owner[owner] (zeroed by the caller) grows by those whose last name goes
 * with that one, the owners going in the order of their numbers. */
uint64_t freed_count(struct freed *f, uint64_t *by_owner);
void freed_free(struct freed *f);

#endif
