/* Repair: damaged files of a committed checkpoint are made whole again from good copies. That is another checkpoint of
 * the job whose file has the same sidecar digest, so the same bytes, or the memory of the daemon that saved it. It is the
 * only one who replaces a file of a committed checkpoint, and by nothing but what its digests say:
 *   - a new file under a temporary name in the same directory; every leaf of it was checked on its way, good ones of the
 *     damaged file, the others of a donor; fsync; read back and checked again; renamed over the damaged one; fsync of the
 *     directory.
 *   - checkpoints that are hard-linked to the damaged file share the damage: their names are replaced by links to the new
 *     one.
 * At every instant each name is the damaged file or the whole one. MANIFEST.json and node manifests are not repaired.
 * Belongs to one thread. */
#ifndef CKPT_STORE_REPAIR_H
#define CKPT_STORE_REPAIR_H

#include "store/read/repo.h"

struct repair;

/* Good bytes from elsewhere: fills buf with [from, from + len) of the data file. Whatever comes is checked. -ENOENT: it
 * has none. */
struct repair_memory {
	int (*read)(void *arg, const struct manifest_file *file, uint64_t from, uint64_t len, void *buf);
	void *arg;
};

struct repair_result {
	uint64_t files;    /* damaged, data files and sidecars */
	uint64_t mended;   /* of these made whole; in a trial: could be */
	uint64_t leaves;   /* that came from a donor */
	uint64_t siblings; /* names in other checkpoints that were replaced, too */
};

/* For one verification: 0 or -ENOMEM. */
int repair_new(struct repo *repo, const char *job, struct step_id id, struct repair **out);
void repair_free(struct repair *r);
/* Verification found something in this file (verify_options.finding). */
void repair_note(struct repair *r, const char *file);

/* Repairs what was noted. trial: writes nothing and says what could be done. memory: NULL, none. 0: all of it; -EBADMSG:
 * some damage stays, *err says where and why; others: storage failed. What has been mended stays so. */
int repair_run(struct repair *r, bool trial, const struct repair_memory *memory, struct repair_result *result,
	       struct err *err);

#endif
