/* Deposit: a checkpoint of one rank that is written by a tool, with no daemon. The order of writes and the fault model
 * are those of ckptd/checkpoint/node_part.h: files, sidecars and node manifest are fsynced, then the directories above,
 * and only then MANIFEST.json is linked into place. The caller holds REPO_LOCK. */
#ifndef CKPT_STORE_DEPOSIT_H
#define CKPT_STORE_DEPOSIT_H

#include "store/read/repo.h"

struct deposit {
	struct repo *repo;
	const char *job, *node;
	struct step_id id;
	const struct registration *reg; /* of the only rank */
	const struct layout *layout;
	/* Brings bytes [from, from + len) of piece `piece` of the layout. len is at most DISK_CHUNK. */
	int (*read)(void *arg, uint32_t piece, uint64_t from, void *data, uint64_t len, struct err *err);
	int (*progress)(void *arg, uint64_t done, uint64_t total); /* non-zero: cancel. May be NULL */
	void *arg;
	uint64_t bytes, files; /* result: of data files */
};

/* -EEXIST: there is a directory of that name; -ENOSPC; -ECANCELED; what `read` says. On failure nothing is left of it, or, where that
 * fails too, a directory that begins with REPO_ABANDONED. */
int deposit_write(struct deposit *d, struct err *err);

#endif
