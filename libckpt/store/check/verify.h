/* Verification of one checkpoint against its own digests. Reads through O_DIRECT, so that it tells of the storage and not of
 * the page cache. */
#ifndef CKPT_STORE_VERIFY_H
#define CKPT_STORE_VERIFY_H

#include "store/read/repo.h"

enum verify_depth {
	VERIFY_QUICK = 1, /* documents, sidecars, existence and size of files, safetensors headers */
	VERIFY_DATA,      /* and every leaf (or the share that was asked for) */
};

struct verify_options {
	enum verify_depth depth;
	double share; /* of the leaves: 0 < share <= 1, chosen by seed in runs of neighbours, some of every file */
	uint64_t seed;
	/* Called on the caller's thread for each finding; text is one sentence. All but `text` may be empty. tensor and the byte range
	 * are those of the damaged leaf, or of neighbouring ones of one tensor: range in the data file. Damage to leaves comes in
	 * the order of the files. May be NULL. */
	void (*finding)(void *arg, const char *file, const char *tensor, uint64_t from, uint64_t to, const char *text);
	/* Bytes checked of bytes to check; a non-zero return cancels with -ECANCELED. May be NULL. */
	int (*progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
	unsigned threads; /* digest workers; 0: one per core, at most 8 */
	uint64_t memory;  /* for read buffers, at most (but a chunk of a packed file each); 0: as much as is fastest */
};

struct verify_result {
	uint64_t files, bytes, leaves, damaged_leaves, findings;
};

/* 0: intact as far as asked; -EBADMSG: damage was found (each told to `finding`); -EIO and others: could not be read. */
int verify_checkpoint(struct repo *repo, const char *job, struct step_id id, const struct verify_options *opts,
		      struct verify_result *result, struct err *err);

#endif
