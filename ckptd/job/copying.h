/* Copying: a job's snapshots go into the memory of other nodes. The coordinator orders which one; it goes out of the
 * slots of this node's ranks to the nodes that replication/placement.h names (replication/replication.h). When every rank
 * here has all its copies, or cannot have them, the coordinator hears of it. What is missing then is tried again, until
 * another snapshot is ordered. What they have restored is not sent while the ranks are on their way back to work
 * (recoveries_return). Which snapshots stay in memory for it: save/copies.h. */
#ifndef CKPTD_JOB_COPYING_H
#define CKPTD_JOB_COPYING_H

#include "base/err.h"
#include "format/tensor/names.h"

#include <stdbool.h>

struct job;
struct memory;

struct copying {
	uint64_t todo;    /* ranks by index whose part is to be sent */
	uint64_t sending; /* and whose part is on its way */
	bool answered;
	bool unserved; /* a restore was refused although there is something, and nothing was ordered since */
	uint64_t retry_ns;
	/* since when ranks that have entered a later epoch restore nothing; 0: they do, or have yet to enter */
	uint64_t idle_ns;
	struct err why; /* not all copies are held; "": they are, or are under way */
};

/* Also of job->copies. */
void copying_init(struct job *job);
/* The job goes on, here or elsewhere, and its copies are what it goes on from. */
void copying_leave(const struct job *job);
/* The job leaves this node; where it was on no other, it has ended. What it was refused is held for others. */
void copying_end(const struct job *job);
/* At each tick. */
void copying_tick(struct job *job);
/* A new epoch, before anybody is told: what is open to others is closed. */
void copying_epoch(const struct job *job);
/* Ranks here that lack copies of what was ordered last; 0 while these are on their way. */
unsigned copying_missing(const struct job *job);

/* The coordinator's words. */
void copying_order(struct job *job, struct step_id id);
void copying_refused(struct job *job, int rc);

/* For replica_config.find; arg: struct jobs. */
int copying_find(void *arg, const char *job, uint32_t rank, struct step_id id, struct memory **mem, uint32_t *slot);

#endif
