/* Saves: all snapshots of one job, from the slots of its ranks to the store. Decides which slot can be used again, which
 * snapshot is written next, and tells every rank what level each has reached. */
#ifndef CKPTD_SAVE_SAVES_H
#define CKPTD_SAVE_SAVES_H

#include "runtime/room.h"
#include "save/snapshot.h"

struct copies;
struct job;
struct policy;
struct save_stats;
struct storage;
struct verify_item;

/* A rank of the job on this node, as it is now. */
struct saved_rank {
	uint32_t id;        /* in the world */
	struct memory *mem; /* its arena; NULL: it has none yet */
	bool in_use;   /* the arena: by the rank, or it has been inspected; else nobody has looked at what came back */
	bool rejoined; /* the process had joined before it came to this daemon: it may still write to its slots */
	bool finished; /* it has said goodbye */
};

/* The job whose snapshots they are; what it points to changes. */
struct saved_job {
	struct job *job; /* for reports, and the calls below */
	const char *name;
	const struct policy *policy;
	const uint32_t *epoch, *world, *nlocal, *nslots;
	const bool *spread, *stop; /* over nodes; asked to end */
	const struct runtime *runtime;
	struct storage *storage;
	struct copies *copies;
	struct save_stats *stats;
	struct saved_rank (*rank)(const struct job *job, uint32_t index);
	/* What became of a save, in words for the ranks. */
	void (*event)(struct job *job, struct step_id id, int rc, const char *text);
	/* A checkpoint has become durable. */
	void (*durable)(struct job *job, struct step_id id);
};

struct saves {
	struct saved_job of;
	struct list snapshots;                   /* ordered by (epoch, step) */
	struct step_id left_out[WIRE_LOCAL_MAX]; /* the last step of which each rank was seen to have had no slot */
	struct step_id lent;                     /* ranks are restoring from its slots: they stay; epoch 0: none */
	uint64_t lent_ns;
	struct step_id resumed;      /* what all ranks have gone on from; epoch 0: from nothing */
	uint32_t resumed_in;         /* in which epoch; 0: in none yet */
	struct step_id begun;        /* the newest that a rank here has begun; epoch 0: none */
	struct snapshot *committing; /* one at a time: they share one disk */
	struct verify_item *verifying;
	_Atomic int gait;            /* enum readback_gait of what is read back */
	struct bucket bucket;        /* the job's limit of writes */
	struct previous previous;    /* what the next commit may link to */
	struct part_layout *layouts; /* what this node writes of what others have, too; NULL: nothing was yet */
	uint64_t until_due;       /* saves to storage that are passed over before one is written (save/save_policy.h) */
	struct peer_save ordered; /* to be written next, by order, with parts of its own; epoch 0: none */
	/* the coordinator knows of what fails: it is not told, and nothing is started or forgotten */
	unsigned reporting;
	unsigned walking;                     /* each snapshot is looked at: nothing is started or forgotten */
	bool apart;                           /* nobody coordinates the job, or it cannot be reached */
	uint64_t linked_ns;                   /* since when somebody does again */
	uint64_t committed, failed, verified; /* counts, for status */
};

/* Of saves.snapshots. */
static inline struct snapshot *snapshot_of(struct list *node)
{
	return list_entry(node, struct snapshot, link);
}

void saves_init(struct saves *saves, const struct saved_job *of);
/* Nothing may run any more (saves_idle). */
void saves_free(struct saves *saves);

/* Another daemon coordinates the job, in the same epoch: what was reported is reported anew, and what was ordered and not
 * begun is not. */
void saves_report_anew(struct saves *saves);
/* What all ranks here have copied in the epoch, and others need not know of: the newest ones, and the newest first. The
 * number of them. */
uint32_t saves_list_copied(const struct saves *saves, struct peer_copied *list, uint32_t max);
/* Nobody coordinates the job, or somebody does again. Saves to memory go on meanwhile; nothing is written. */
void saves_apart(struct saves *saves, bool apart);
/* Looks at the slots of all ranks: after a doorbell and at each tick. */
void saves_follow(struct saves *saves);
/* Starts what can be started, gives back what is not needed, forgets what has ended. */
void saves_pump(struct saves *saves);
/* The daemon ends, and nothing new is taken up. A save that is written while it is still copied is followed. If that
 * takes long, it is left as a crash would leave it, and the next incarnation of the daemon finds it in the arenas. True:
 * it has been left now. */
bool saves_end_open(struct saves *saves, bool leave);
/* What is being read back is left at once, and nothing more is begun: the daemon must end. */
void saves_stop_reading(struct saves *saves);
/* Checks deadlines; at each tick. */
void saves_expire(struct saves *saves);
/* A new epoch: what is not complete on every rank is given up, before anybody is told. */
void saves_poison(struct saves *saves, uint32_t epoch);

/* This node is not told any more what becomes of what it has under way; why: the job went on without it, or the
 * coordinator is lost. Files stay as they are: the others may count on them. */
void saves_abandon(struct saves *saves, const char *why);

/* The coordinator's orders. A level is true for every rank of the job. The save has failed, perhaps towards storage
 * alone. Its directory is there, and the local part is written into it, or compared if a checkpoint was found. It stays
 * in memory. What was written of a failed one goes, unless it is kept. */
void saves_level(struct saves *saves, struct step_id id, enum level_shown level);
void saves_fail(struct saves *saves, struct step_id id, bool storage, int rc, const char *text);
void saves_pass(struct saves *saves, struct step_id id, int rc, const char *text);
void saves_write(struct saves *saves, const struct peer_save *order);
void saves_clear(struct saves *saves, const struct peer_save *order);
/* What its ranks hold of some replicas is to be told. */
void saves_compare(struct saves *saves, const struct peer_compare *ask);

/* Some that are older than the epoch: see snapshot_undecided. */
bool saves_undecided(const struct saves *saves);
struct snapshot *saves_find(struct saves *saves, struct step_id id);
/* Another one of that step may still be written, out of slots that it has given back or arenas that are not the ranks'
 * any more. */
struct snapshot *saves_find_in_memory(struct saves *saves, struct step_id id);
/* The newest snapshot whose copy in memory is complete on every rank; `step`: that one, or UINT64_MAX. NULL: none. */
struct snapshot *saves_in_memory(struct saves *saves, uint64_t step);
/* Keeps the slots of a snapshot, whatever else would give them back, until every rank has captured a later one or the
 * epoch is raised. Ranks that were told to restore from it read at their own pace. Step 0 of epoch 0: none. */
void saves_lend(struct saves *saves, struct step_id id);
/* All ranks of the job have it, and go on from there; epoch 0: nothing is left that all could have, and they begin
 * afresh. */
void saves_resume(struct saves *saves, struct step_id id);
/* A rank's process is gone: nothing writes to its slots any more. */
void saves_orphan(struct saves *saves, uint32_t index);
/* A snapshot whose copy in memory was found damaged is not offered again. */
void saves_drop(struct saves *saves, struct snapshot *s);
/* Enters slots that the daemon filled itself (from storage): complete, in memory. slots: one per local rank. */
int saves_adopt(struct saves *saves, struct step_id id, const uint32_t *slots);

/* Whether the policies of what is written are applied here: on the node of rank 0. */
bool saves_decide(const struct saves *saves);
bool saves_busy(const struct saves *saves);    /* captures or digests are under way: follow closely */
bool saves_at_work(const struct saves *saves); /* a worker or the disk uses something of it */
bool saves_idle(const struct saves *saves);    /* nothing runs, no commit and no read-back is wanted */
/* The same, but for what others may still order to be written: who decides that is not idle before. */
bool saves_idle_here(const struct saves *saves);

/* For snapshots. */
void saves_publish(struct saves *saves, const struct level *level);
void saves_note(struct saves *saves, struct snapshot *s); /* for the statistics: its level or error has changed */
void saves_report(struct saves *saves, const struct snapshot *s, int rc);
/* What the coordinator is told of it. */
void saves_copied(struct saves *saves, const struct snapshot *s);
void saves_digested(struct saves *saves, struct snapshot *s);
void saves_ready(struct saves *saves, struct snapshot *s);
void saves_prepared(struct saves *saves, struct snapshot *s);
void saves_passed(struct saves *saves, const struct snapshot *s, int rc);
void saves_failed(struct saves *saves, const struct snapshot *s, int rc);
bool saves_are_copied(const struct saves *saves); /* to other nodes */
void saves_cleared(struct saves *saves, struct step_id id);
const struct memory *saves_memory(const struct saves *saves, uint32_t index); /* the rank's arena now */
uint32_t saves_rank(const struct saves *saves, uint32_t index);               /* its number in the world */
void saves_submit(struct saves *saves, struct work *work);                    /* for a worker to do */

#endif
