/* The threads of a restore that check what was read and copy it to its destinations, and the buffers that go round between them
 * and the reader. Private to the restore.
 *
 * A slot is with the reader (taken) or in one of two queues: free, or read (to be checked). checkers_* are called by the reader's
 * thread only; slots change hands under the lock. */
#ifndef CKPT_STORE_CHECKERS_H
#define CKPT_STORE_CHECKERS_H

#include "store/read/plan.h"

#include <pthread.h>

enum { CHECKERS_MAX = 64 };

struct restore_slot {
	struct disk_op op;
	struct extent extent;
	struct source *source; /* the reader's: the open file */
	uint8_t *data;         /* checkers.chunk bytes, aligned */
	struct list link;
};

struct checkers {
	const struct restore_plan *plan;
	const struct restore_options *opts;
	unsigned nslots, nthreads;
	uint64_t chunk; /* bytes of each slot */
	struct restore_slot *slots;
	uint8_t *memory; /* of all slots */

	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t read_some, freed_some;
	struct list free, read;
	unsigned checking; /* slots in hands of threads */
	bool closing;
	uint64_t done; /* bytes in destinations */
	int rc;        /* of the first error */
	struct err err;
	pthread_t threads[CHECKERS_MAX];
};

int checkers_start(struct checkers *c, const struct restore_plan *plan, const struct restore_options *opts,
		   unsigned nslots, uint64_t chunk, unsigned nthreads, struct err *err);
/* Joins the threads and frees the slots, which must all be back. */
void checkers_stop(struct checkers *c);

/* A free slot, or NULL. */
struct restore_slot *checkers_take(struct checkers *c);
/* Hands a slot over to be checked, or back unused. */
void checkers_check(struct checkers *c, struct restore_slot *slot);
void checkers_put(struct checkers *c, struct restore_slot *slot);
/* Waits until there is a free slot, or, when none is wanted any more, until the threads are through with one; at most `ms`. */
void checkers_wait(struct checkers *c, bool slot_wanted, unsigned ms);
/* Whether anything is still to be checked. */
bool checkers_busy(struct checkers *c);
/* The first error; *done: bytes so far. */
int checkers_state(struct checkers *c, uint64_t *done);
/* Records an error unless there is one. */
void checkers_fail(struct checkers *c, int rc, const struct err *err);

#endif
