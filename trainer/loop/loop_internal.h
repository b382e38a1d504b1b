/*
 * What the files of the loop share. Prototypes stand below the name of the file that owns them.
 */
#ifndef CKPT_TRAINER_LOOP_INTERNAL_H
#define CKPT_TRAINER_LOOP_INTERNAL_H

#include "collective/communicator.h"
#include "loop/faults.h"
#include "loop/loop.h"
#include "loop/monitor.h"
#include "loop/progress.h"
#include "loop/report.h"
#include "loop/saver.h"
#include "loop/state.h"
#include "loop/step.h"
#include "loop/straggler.h"
#include "model/device.h"

struct loop {
	struct loop *kept_before; /* see keep() */
	const struct train_options *options;
	const struct data *data;
	const volatile sig_atomic_t *stop;
	struct cancel cancel;
	ckpt *session;
	struct state state;
	struct report report;
	struct communicator communicator;
	struct saver saver;
	struct step step;
	struct progress progress;
	struct platform *platform;
	struct faults faults;
	struct monitor monitor;
	struct straggler straggler;
	bool back;      /* the state was bad: the next one comes from a healthy checkpoint, until a newer one is safe */
	bool agreed;    /* all ranks leave the epoch for a reason that they share: no news will come */
	uint64_t noted; /* the safe step that the monitor was told last */
	int64_t mark_ns;    /* no healthy checkpoint is told before: the daemon is slow */
	struct entry entry; /* how this rank came into the epoch */
	char reason[CANCEL_REASON_SIZE];
	char left[LOOP_WHY_SIZE];        /* why the epoch before was left */
	struct communicator_place place; /* where that was; compared with those of the others in the next epoch */
	bool compared;
	bool reported;       /* the entry is complete and reported */
	int64_t advanced_ns; /* last completed step, or the start */
	char why[LOOP_WHY_SIZE];
};

/* --- loop.c --- */

/* Notes why, and returns rc. */
int loop_fail(struct loop *loop, int rc, const char *why);
bool loop_wants_stop(const struct loop *loop);
bool loop_patience_ended(const struct loop *loop);

/* --- loop_epoch.c: into an epoch and out of it --- */

/* What belongs to a place in the world, for the one that the session has now. */
int loop_make_state(struct loop *loop);
void loop_free_state(struct loop *loop);
int loop_enter(struct loop *loop);
/* Rank 0 tells people; every rank reports. After the first step of the epoch, or when there is none to do. */
void loop_tell_entry(struct loop *loop);
/*
 * Leaves everything that belongs to the epoch and waits for the news of the next. -ETIMEDOUT: no step for too long;
 * -ECANCELED: asked to stop while ranks are missing, who are not likely to come for that.
 */
int loop_leave(struct loop *loop);

/* --- loop_restore.c: the state to go on from --- */

/* All ranks come to the same: a checkpoint, a healthy one where one is needed, or a fresh start. */
int loop_restore(struct loop *loop);

/* --- loop_train.c: in an epoch --- */

int loop_train(struct loop *loop);
/* The last save. Its failure is told by the result; only the end of the epoch sends us back. */
int loop_finish(struct loop *loop, struct loop_result *result);

#endif
