/* The mirror: all records under the prefix as they were last heard of, in the order of their keys. Bounded in number and bytes. */
#ifndef CKPTD_REGISTRY_MIRROR_PRIVATE_H
#define CKPTD_REGISTRY_MIRROR_PRIVATE_H

#include "registry/registry.h"

struct mirror_record {
	char *key;
	void *value; /* never NULL */
	size_t len;
	uint64_t created, changed, lease;
	uint64_t marked;
};

struct mirror {
	struct mirror_record **records; /* sorted */
	size_t n, room;
	uint64_t bytes;
	uint64_t round; /* of marks */
	size_t records_max;
	uint64_t bytes_max;
};

struct mirror mirror_empty(size_t records_max, uint64_t bytes_max);
void mirror_free(struct mirror *m);

/* Takes what the record has, which is left without it. 1: it is news; 0: it was there already; -ENOSPC: the mirror is full, -ENOMEM.
 * The record is marked. */
struct answer_record;
int mirror_put(struct mirror *m, struct answer_record *record);
/* Marks the record if it is there just so. False: it is not. */
bool mirror_mark(struct mirror *m, const char *key, uint64_t created, uint64_t changed);
/* Takes it out; the caller frees it with mirror_record_free(). NULL: it is not there, or is newer. */
struct mirror_record *mirror_remove(struct mirror *m, const char *key, uint64_t changed);
void mirror_record_free(struct mirror_record *record);

/* Begins a round: nothing is marked. */
void mirror_unmark(struct mirror *m);
/* Takes out one that is not marked, from *at on, which is 0 at first. NULL: there is none. */
struct mirror_record *mirror_sweep(struct mirror *m, size_t *at);

const struct mirror_record *mirror_find(const struct mirror *m, const char *key);
/* The first whose key begins so, or the next such one behind `after`; NULL: there is none. */
const struct mirror_record *mirror_next(const struct mirror *m, const char *prefix, const struct mirror_record *after);

#endif
