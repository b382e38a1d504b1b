/* Copies: which snapshot of a job is to be copied to other nodes, and which stay in the slots for the sake of that. The
 * coordinator orders which; the job sends it (job/copying.h).
 *
 * What every rank of the job has copies of stays in the slots until a newer one has, or is on storage. A newer one that
 * is only captured would be lost with the next node, and the copies of the older one may have been on the last. What an
 * epoch has gone on from takes its place all the same: had the newer one been there, it had been restored. So does what
 * was ordered last and is held, also when the epoch is over. It may have been replicated, and the node that was told so
 * may be lost, or have given up older ones. */
#ifndef CKPTD_SAVE_COPIES_H
#define CKPTD_SAVE_COPIES_H

#include "format/tensor/names.h"

#include <stdbool.h>

struct peers;
struct policy;

/* The job that they are of; what it points to changes. */
struct copied_job {
	const char *name;
	const struct peers *peers;
	const struct policy *policy;
	const uint32_t *epoch;
};

struct copies {
	struct copied_job of;
	struct step_id id; /* ordered last; epoch 0: none */
	uint32_t epoch;    /* in which */
	bool held;         /* all copies of what the ranks here have of it */
	struct step_id replicated,
		durable; /* the newest that are so on all ranks; but an older one that was gone on from */
};

void copies_init(struct copies *copies, const struct copied_job *of);

/* Copies that are wanted of each rank's snapshot; 0: the job is not replicated. */
unsigned copies_wanted(const struct copies *copies);
/* Something is ordered in this epoch. */
bool copies_are_ordered(const struct copies *copies);
/* What all ranks have copies of, and need; epoch 0: none. */
struct step_id copies_kept(const struct copies *copies);
/* The snapshot's slots are not given back. */
bool copies_keep(const struct copies *copies, struct step_id id);
/* Slots are needed: what was ordered in an epoch that is over, and may have been replicated, is kept no longer. */
void copies_yield(struct copies *copies);

/* The coordinator's words. */
void copies_order(struct copies *copies, struct step_id id);
void copies_replicated(struct copies *copies, struct step_id id);
void copies_durable(struct copies *copies, struct step_id id);

#endif
