/* Restore: this node's part in a restore. The coordinator chooses the step (coordinator/restore/restore.c). This node brings it
 * into slots of its ranks: out of its own memory, from nodes that hold copies, from storage. Each source is verified by
 * digest before it is used, and the reason for each source that is passed over is kept.
 *
 *   IDLE → (every rank of the epoch has asked) LOOK → FOUND → OWN | → CLAIM → FORMER | → PEER → STORAGE | → FETCHED → IDLE
 * LOOK (worker): what storage has. FOUND: the coordinator chooses. OWN (worker): the digests of what is in memory. CLAIM:
 * one free slot on every rank. FORMER (worker): the arenas that former ranks have left (restore/former.h). PEER: each
 * rank's part from those who hold a copy, one after another, several ranks at a time. STORAGE (worker): what is lacking
 * then, each leaf read once. FETCHED: until the other nodes have theirs. A rank lost meanwhile: the result is thrown
 * away. */
#ifndef CKPTD_RESTORE_RESTORE_H
#define CKPTD_RESTORE_RESTORE_H

#include "base/err.h"
#include "coordinator/room.h"
#include "format/message/wire.h"
#include "format/tensor/names.h"
#include "restore/recovery_log.h"

#include <stdbool.h>
#include <stdint.h>

struct copies;
struct former;
struct health_marks;
struct job;
struct memory;
struct peers;
struct policy;
struct recut;
struct replica_fetched;
struct replica_found;
struct restore_work;
struct runtime;
struct saves;
struct storage;

enum restore_state {
	RESTORE_IDLE = 0,
	RESTORE_LOOK,
	RESTORE_FOUND,
	RESTORE_OWN,
	RESTORE_CLAIM,
	RESTORE_FORMER,
	RESTORE_PEER,
	RESTORE_RECUT,
	RESTORE_STORAGE,
	RESTORE_FETCHED,
	RESTORE_STATE_END
};

/* A rank of the job on this node, as it is now. */
struct restored_rank {
	uint32_t id;        /* in the world; RANK_MAX: nobody has come for this place yet */
	struct memory *mem; /* its arena; NULL: it has none yet */
	bool waits;         /* it has asked, and was not answered */
};

/* The job that restores; what it points to changes. */
struct restored_job {
	struct job *job; /* for reports, and the calls below */
	const char *name;
	const struct policy *policy;
	const uint32_t *epoch, *world, *nlocal;
	const struct runtime *runtime;
	const struct storage *storage;
	const struct peers *peers;
	struct saves *saves;
	struct copies *copies;
	const struct health_marks *health_marks;
	struct recovery_log *log;
	struct former *const *former;
	struct restored_rank (*rank)(const struct job *job, uint32_t index);
	/* All its ranks are waiting: they are told. */
	void (*answer)(struct job *job, const struct wire_restored *m);
	void (*refuse)(struct job *job, int rc, const char *text);
	/* Asks a node for the part of a rank: restore_fetched follows, and before that restore_arrived may. */
	int (*fetch)(struct job *job, uint32_t index, uint32_t node);
	/* Asks all nodes what they hold: recut_surveyed follows, perhaps inside. */
	int (*look_around)(struct job *job);
	/* Asks a node for what it was found to hold, into memory of this node: recut_fetched follows. -EEXIST: it stands here. */
	int (*fetch_part)(struct job *job, const struct replica_found *found);
};

struct restore {
	struct restored_job of;
	enum restore_state state;
	uint64_t step;         /* wanted; or STEP_NEWEST, STEP_NEWEST_HEALTHY */
	struct rollbacks back; /* what they give up is not */
	uint64_t start_ns;
	uint64_t chosen_ns;        /* when the coordinator had named a step; 0: not yet */
	bool asked;                /* to look: as soon as no work of an earlier epoch is under way */
	struct restore_work *work; /* on a worker */
	uint32_t slots[WIRE_LOCAL_MAX];
	struct memory *claimed[WIRE_LOCAL_MAX];     /* references, while slots[] are claimed */
	struct peer_restore_fetch bring;            /* what is to be brought */
	uint64_t lacking, fetching;                 /* ranks by index: whose part is not there; is being fetched */
	uint64_t copied;                            /* the same: whose part is a copy, which says what it lacks */
	uint8_t tried[WIRE_LOCAL_MAX];              /* holders of each */
	struct recut *recut;                        /* while it is of another world (restore/recut.h); else NULL */
	bool unfit;                                 /* a holder has a part of it, divided otherwise among the ranks */
	uint64_t begun_ns[WIRE_LOCAL_MAX];          /* what brings the part of each */
	struct recovery_part parts[WIRE_LOCAL_MAX]; /* where it came from */
	enum wire_source source;                    /* the lowest rung that a part came from */
	char text[WIRE_TEXT_MAX];                   /* of what was passed over here */
	int rc;                                     /* that the coordinator was told of it */
	uint32_t saved_world;                       /* of what was read from storage; 0: nothing was */
	bool partial;                               /* what was read there was more than the ranks register */
	uint32_t count;                             /* recoveries done */
	struct step_id last;
	uint32_t last_source;
	char why[WIRE_TEXT_MAX]; /* of what was passed over then */
	uint64_t last_ns;
};

void restore_init(struct restore *restore, const struct restored_job *of);
/* The coordinator's orders. Look what there is. */
void restore_look(struct restore *restore, const struct peer_look *look);
/* Bring it into slots. */
void restore_fetch(struct restore *restore, const struct peer_restore_fetch *bring);
/* All nodes have it: answers the ranks. */
void restore_finish(struct restore *restore, const struct peer_choice *choice);
/* There is nothing; why: what was passed over. */
void restore_refuse(struct restore *restore, int rc, const char *text, const char *why);
/* Of the part that a rank, by index, gets from another node: leaves that may be loaded while the rest is fetched; the end. */
void restore_arrived(struct restore *restore, uint32_t index, uint64_t first, uint64_t count);
void restore_fetched(struct restore *restore, uint32_t index, const struct replica_fetched *done);
/* Goes on when it waits for slots; every tick and after slots were given back. */
void restore_pump(struct restore *restore);
/* The epoch has moved on: answers nobody any more. */
void restore_cancel(struct restore *restore);
bool restore_idle(const struct restore *restore);

#endif
