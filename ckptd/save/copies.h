/* Copies: what of one job is sent to other nodes. The coordinator orders which snapshot; it goes out of the slots of this node's ranks into
 * the memory of the nodes that replication/placement.h names (replication/replication.h). When every rank here has all its copies, or cannot have them, the
 * coordinator hears of it. What is missing then is tried again, until another snapshot is ordered. What they have restored is not sent while the
 * ranks are on their way back to work (recoveries_return).
 *
 * What every rank of the job has copies of stays in the slots until a newer one has, or is on storage. A newer one that is only captured
 * would be lost with the next node, and the copies of the older one may have been on the last. What an epoch has gone on from takes its
 * place all the same: had the newer one been there, it had been restored. So does what was ordered last and is held,
 * also when the epoch is over: it may have been replicated, and who was told so may be lost, or have given up what is older. */
#ifndef CKPTD_SAVE_COPIES_H
#define CKPTD_SAVE_COPIES_H

#include "base/err.h"
#include "format/tensor/names.h"

#include <stdbool.h>

struct job;
struct memory;

struct copies {
	struct job *job;
	struct step_id id; /* ordered last; epoch 0: none */
	uint32_t epoch;    /* in which */
	uint64_t todo;     /* ranks by index whose part is to be sent */
	uint64_t sending;  /* and whose part is on its way */
	bool answered, held;
	bool unserved; /* a restore was refused although there is something, and nothing was ordered since */
	uint64_t retry_ns;
	uint64_t
		idle_ns; /* since when ranks that have entered a later epoch restore nothing; 0: they do, or have yet to enter */
	struct step_id replicated,
		durable; /* the newest that are so on all ranks; but an older one that was gone on from */
	struct err why;  /* not all copies are held; "": they are, or are under way */
};

void copies_init(struct copies *copies, struct job *job);
/* The job goes on, here or elsewhere, and its copies are what it goes on from. */
void copies_leave(struct copies *copies);
/* The job leaves this node; where it was on no other, it has ended. What it was refused is held for others. */
void copies_end(struct copies *copies);
/* At each tick. */
void copies_tick(struct copies *copies);
/* A new epoch, before anybody is told: what is open to others is closed. */
void copies_epoch(struct copies *copies);

/* Copies that are wanted of each rank's snapshot; 0: the job is not replicated. */
unsigned copies_wanted(const struct job *job);
/* Ranks here that lack copies of what was ordered last; 0 while these are on their way. */
unsigned copies_missing(const struct copies *copies);
/* The snapshot's slots are not given back. */
bool copies_keep(const struct copies *copies, struct step_id id);
/* Slots are needed: what was ordered in an epoch that is over, and may have been replicated, is kept no longer. */
void copies_yield(struct copies *copies);

/* The coordinator's words. */
void copies_order(struct copies *copies, struct step_id id);
void copies_refused(struct copies *copies, int rc);
void copies_replicated(struct copies *copies, struct step_id id);
void copies_durable(struct copies *copies, struct step_id id);

/* For replica_config.find; arg: struct jobs. */
int copies_find(void *arg, const char *job, uint32_t rank, struct step_id id, struct memory **mem, uint32_t *slot);

#endif
