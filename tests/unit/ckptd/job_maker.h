/* Arenas of a small job of two ranks, filled by hand: for the tests of what the daemon does with them. */
#ifndef CKPT_TESTS_JOB_MAKER_H
#define CKPT_TESTS_JOB_MAKER_H

#include "arena/memory.h"

enum {
	MAKER_WORLD = 2,
	MAKER_ROWS = 40000 /* 8 bytes each: several leaves, not a whole number of them */,
	MAKER_NUMBER = 17, /* of maker_commit's directories, as in name_work() */
};

struct maker {
	struct memory *mem[MAKER_WORLD];
	uint64_t *leaves[MAKER_WORLD];
};

/* "w" in rows, one half each; "shared" replicated; blobs of job and rank. Slot 0 of each holds `step`, complete. */
void maker_new(struct maker *m, struct step_id id);
void maker_free(struct maker *m);
/* Table and layout of one rank of that job; released by the caller. */
void maker_tables(uint32_t rank, struct table **table, struct layout *layout);
/* The table of a registration, which is freed. */
struct table *maker_table(struct registration *reg);
/* Open descriptors of this process. */
unsigned open_descriptors(void);

/* Starts a commit whose node is the only one, with its directory. done comes when both have ended. */
struct node_part;
struct directory;
void maker_commit(struct node_part *c);
/* Until done. NULL: it has ended. */
struct directory *maker_directory(const struct node_part *c);

#endif
