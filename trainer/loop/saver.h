/*
 * The saves of one rank: begun by schedule, fenced just before the state changes, followed until they are safe. A save
 * that fails is told and counted, and the training goes on; only the news of another epoch ends the step.
 */
#ifndef CKPT_TRAINER_SAVER_H
#define CKPT_TRAINER_SAVER_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt.h"
#include "collective/cancel.h"
#include "loop/options.h"
#include "loop/report.h"

enum { SAVER_FOLLOWED_MAX = 16, SAVER_WHY_SIZE = 512 };

struct saver {
	/* borrowed, set by the owner */
	ckpt *session;
	struct cancel *cancel;
	const struct report *report;
	void *stream;                         /* on which the state is used; NULL on the host */
	uint64_t memory_every, storage_every; /* 0: never */
	bool automatic;                       /* the daemon says what is due; these count where it does not */
	int rank;                             /* 0 speaks for all where all see the same */
	bool memory_only;                     /* the daemon has no store: what is due for storage goes to memory */

	struct ckpt_snapshot *unfenced;                     /* also the last of `followed`; NULL: none */
	struct save_stall stall;                            /* of it */
	struct ckpt_snapshot *followed[SAVER_FOLLOWED_MAX]; /* owned, oldest first */
	ckpt_target target[SAVER_FOLLOWED_MAX];
	bool captured[SAVER_FOLLOWED_MAX];
	int count;

	uint64_t in_memory, on_storage; /* the newest step that is safe there; 0: none */
	uint64_t busy, failed;          /* saves that were skipped, that went wrong */
	uint64_t deviated;              /* a step whose save failed because replicas differ; 0: none */
	int told;                       /* the error of begin that was told last: an outage is told once */
	char why[SAVER_WHY_SIZE];       /* of the last error that a function returned */
};

/* Errors that no later save can heal, since they are the caller's: an undefined state, another process. */
bool saver_fatal(int rc);
/* To be called after each join, when all ranks have met at the same daemon: asks whether it has a store. Told when it changes. */
void saver_joined(struct saver *saver);
/* Whether a save can begin: this rank has a slot for it, if need be after a while. */
bool saver_has_slot(struct saver *saver);
/* Whether the turn of `step` has come. */
bool saver_due(const struct saver *saver, uint64_t step);
/* Saves the state of `step` if its turn has come. 0, -ESTALE, or what is fatal. */
int saver_begin(struct saver *saver, uint64_t step);
/* Saves it whatever the turn, so that a step that was gone back to is the newest one. As saver_begin(). */
int saver_again(struct saver *saver, uint64_t step);
/* The newest step that is as safe as this daemon makes any; 0: none. */
uint64_t saver_safe(const struct saver *saver);
/* To be called before the state changes. As saver_begin(). */
int saver_fence(struct saver *saver);
/* Looks at what became of the saves. Never waits. */
void saver_follow(struct saver *saver);
/* What was safe is not to be trusted. */
void saver_doubt(struct saver *saver);
/* Forgets all saves; those that are complete go their way without us. */
void saver_forget(struct saver *saver);

/*
 * The last save (-EUCLEAN, on all ranks: replicas differ): waits for those before it, then until this one is on storage
 * (or in memory, where only that is wanted or possible).
 * 0, -ESTALE, or why it is not safe. Without schedules there is none.
 */
int saver_finish(struct saver *saver, uint64_t step);

#endif
