/* Coordinator: what the nodes of a job do together. It decides the epoch and who has entered it, which step is restored,
 * how far each save has come on all nodes, and when it becomes a checkpoint. There is one per job, for all of its nodes.
 * If the job is on a single node, reports are plain calls, and orders wait for the end of the input (control/host/outbox.h).
 *
 * It is a pure function of the reports and the clock: nodes report (coord_input), and get orders (struct coord_orders).
 * A report of another epoch than the job's changes nothing and is counted. An order that tells the sender so is on its
 * way, and the sender then says again what still holds. Orders go to all nodes that take part, in the order of their
 * numbers. No report answers an order before it returns.
 *
 *   finish ── a node has finished ──► told that it STAYS ── all have ──► DISMISSED
 *                                         └── another one waits to enter ──► NEEDED
 *   epoch    ── all ranks of all nodes wait in join ──► entered ── one is lost, or wants in ──► raised, entered by nobody yet
 *            ── another daemon coordinates, and all come that are in it ──► RESUME
 *            ── their tables differ ──► LIST_TENSORS, one rank of each kind after the other (coordinator/tables.h)
 *                                       ── none is known in two ways ──► entered
 *   restore  ── all wait ──► LOOK (at memory, copies, storage) ── all have found ──► FETCH ── all have it ──► restored
 *                                   ▲ nothing is left: refused              │ cannot be had: the next best
 *   copies   ── shown: captured, and those of an earlier save are made, or cannot be ──► COPY ── all held ──► shown: replicated
 *   save     ── all captured, replicas alike ──► shown
 *            ── one wants it written ──► MAKE ── made ──► WRITE ── all prepared ──► SEAL (MANIFEST.json)
 *                                                                  ── sealed ──► durable ── read back ──► verified
 *            ── anything fails ──► DROP ── out of the way ──► CLEAR ── all have deleted what they wrote ──► REMOVE
 *   schedule ── a rank will ask for a step that none has (and if the epoch goes on from another coordinator: all have
 *               said what they have) ──► SCHEDULE
 *   standstill ── the ranks of a node give no heartbeat (SILENT) ── those of all nodes ──► STANDSTILL, with who is
 *                 waited for ── some do ──► over
 *   stragglers ── a node's ranks have made a round of steps (PACE) ── those of all nodes ──► STRAGGLERS, with who is
 *                 late again and again
 *   spill   ── the world changes, nodes are lost ──► LOOK ── chosen ──► GATHER ──► MAKE ──► WRITE ──► SEAL, or as a save that fails
 *
 * MAKE, SEAL, DROP and REMOVE go to the coordinator's own daemon, which alone makes, names and removes directories
 * (checkpoint/directory.h). */
#ifndef CKPTD_COORDINATOR_COORDINATOR_H
#define CKPTD_COORDINATOR_COORDINATOR_H

#include "base/list.h"
#include "format/message/peer_coord.h"

#define COORD_NOBODY UINT32_MAX

struct coord;

/* The node that reports, and the epoch that it knows. */
struct coord_from {
	uint32_t node, epoch;
};

/* What was in an epoch before this incarnation of the coordinator. */
enum coord_witness {
	WITNESS_RANK,  /* takes part in it, and goes on if all others do */
	WITNESS_OTHER, /* has heard of it */
	WITNESS_ARENA, /* was given it, perhaps before anybody was told */
};

/* A copy that some node holds. */
struct coord_held {
	uint32_t node, rank, world;
	uint32_t owner; /* the node whose rank it was; none of the job's: nobody knows */
	struct step_id id;
};

struct coord_survey {
	uint32_t epoch;
	uint32_t known; /* the newest epoch of the job that a node has told of; 0: none */
	const struct coord_held *found;
	size_t n;
	uint32_t unheard; /* nodes that are not there, or have not answered, by name */
	char names[64];
	bool planned; /* the job goes on by a plan: whoever comes registers what was saved (control/membership/membership.h) */
	bool parted; /* ranks share a node with others than before, after all that could be brought to storage was: the rest is given up */
};

/* Orders to nodes, node < nnodes; and what is for the coordinator's own daemon.
 *
 * RESUME: the job goes on in its epoch, and what was reported of saves is reported anew. ADOPT: the job is in this epoch,
 * and no rank has to be told; with the flag its ranks go on in it. RAISE: freeze what is shown, poison what is not
 * complete, then tell the ranks. With the flag: the rank whose loss ended the last epoch that all had entered, whatever
 * has raised it since. RANK_WANTED: the rank is wanted anew; the epoch stays. REJECT: those of its ranks that wait to
 * enter cannot. JOINED: all have entered. FINISH_STATE: where a node that has finished stands.
 * LOOK: what there is to restore (RESTORE_CANDIDATES). RESTORE_FETCH: bring it into the slots of this node's ranks
 * (FETCHED). RESTORED, REFUSE: how that ended.
 * LEVEL, FAIL: what has become of a save. COMPARE: tell of these replicas in a snapshot (COMPARED). COPY: make copies of
 * this node's part on other nodes (REACHED, or UNCOPIED); those of an earlier one may go. PIN_REPLICATED: it was shown as
 * replicated, perhaps when this node was not there. What there is of it stays until a newer one is replicated, and older
 * ones may go. Whether it has all its copies now, nobody says. SKIP: it stays in memory, and why. WRITE: the directory is
 * there, and the node writes its part into it (PREPARED), also if it has written into the directory of another
 * coordinator. With the flag a checkpoint is in it, which is compared. CLEAR: what the node wrote of a save that has
 * failed is deleted, unless the flag says that it is to be kept (CLEARED).
 * SCHEDULE: which steps are saved, of those behind the last one.
 * STANDSTILL: all ranks of the job stand still, and which one the others wait for; or they do no longer. It changes
 * nothing. STRAGGLERS: which ranks and nodes are late again and again, after each round that was judged. It changes
 * nothing. SPILL: a node, also one without ranks, has its part in bringing to storage what is only in memory (SPILLED). */
struct coord_orders {
	void *arg;
	/* order is read before it returns, and nobody answers before that. */
	void (*emit)(void *arg, uint32_t node, const struct peer_order *order);
	/* The epoch is to be kept, so that it is not given out again, and where the job went back to last:
	 * coord_persisted, perhaps at once. Until then nobody is told. */
	void (*persist)(void *arg, uint32_t epoch, const char *reason);
	/* Look what copies all nodes hold, also those that do not take part: coord_surveyed. */
	void (*survey)(void *arg);
	/* Makes the directory (coord_made). */
	void (*make)(void *arg, struct step_id id);
	/* All are prepared: writes MANIFEST.json (coord_sealed). */
	void (*seal)(void *arg, struct step_id id, const struct wbuf *manifest);
	/* Gives it up (coord_left). */
	void (*drop)(void *arg, struct step_id id, int rc, const char *why);
	/* Nobody writes to it any more, or deletes from it. */
	void (*remove)(void *arg, struct step_id id);
	/* All ranks wait to enter the epoch; goes_on: somebody on their nodes has been in one. False: not yet, until
	 * coord_admit. NULL: they always may. */
	bool (*may_enter)(void *arg, bool goes_on);
};

/* orders live as long as the coordinator. epoch: one that was never given out. -ENOMEM. */
int coord_new(const char *job, uint32_t world, uint32_t nnodes, uint32_t epoch, const struct coord_orders *orders,
	      struct coord **out);
/* Nobody is told of the first epoch before it is persisted. */
void coord_withhold(struct coord *c);
/* Where the job went back to under an earlier incarnation of the coordinator; to be said before any node joins. */
void coord_recall_rollbacks(struct coord *c, const struct rollbacks *back);
/* The epoch was entered, and is on record: it goes on if all ranks of the world come that are in it
 * (coordinator/resume.c). */
void coord_resume(struct coord *c);
/* They do not: the next one begins. No effect when all have come. */
void coord_resume_give_up(struct coord *c, const char *why);
/* From now on what persist was told cannot be lost. */
void coord_persisted(struct coord *c, uint32_t epoch);
void coord_free(struct coord *c); /* NULL is allowed */

bool coord_has_finished(const struct coord *c, uint32_t node);
/* A report, of any type but PEER_LEAVE and PEER_REQUEST, which concern more than the coordinator. What is of another
 * epoch, or of a node that does not take part, changes nothing, but where it says otherwise.
 *
 * NODE_JOIN: the node takes part with so many ranks, and knows of an epoch that may be later than is known here. It is
 * told in which one the job is: by ADOPT when it has known of none, else by RAISE. Perhaps an earlier incarnation of the
 * coordinator has told it that something was replicated, and it has given up what is older. To a coordinator that takes
 * over it says what its ranks have copied in the epoch (coordinator/resume.c). Where its ranks have finished, and it
 * stands in the epoch of the job, its loss is none and nobody waits for it, as long as the epoch stays.
 * SHARED_PIECES, in any epoch: what it holds of what is replicated, as soon as its ranks have registered, and again after
 * each NODE_JOIN. Nothing is written before that is known of all nodes. LIST_PIECES asks for it again, with the pieces of
 * some shares. RANK_JOIN: a rank wants to enter. NODE_READY, NOT_JOINING: all ranks of the node wait to enter, as many as
 * have joined, or no longer. LOST: a rank is. RANK_NOT_BACK: one that should have come back after a restart is not.
 * RESTORING, NOT_RESTORING: all ranks of the node wait to restore this step (or STEP_NEWEST, STEP_NEWEST_HEALTHY), or no
 * longer. RESTORE_CANDIDATES answers LOOK. FETCHED answers RESTORE_FETCH: -EBADMSG, -EIO: it is damaged, or cannot be
 * had: the next best is tried. COPIED: every rank of the node has copied its part and called fence. What not all nodes
 * have copied when the epoch is raised fails everywhere: what a rank copies after another one has left the collectives is
 * garbage, however complete it looks. REACHED: the node's part of a save has come to LEVEL_CAPTURED, REPLICATED or
 * VERIFIED. Again and again does no harm. REPLICA_DIGESTS: what the node's ranks hold alike with others, before its part
 * has reached LEVEL_CAPTURED. COMPARED: what was asked where it differs (coordinator/save/divergence.h). UNCOPIED: copies of
 * the node's part could not be made. Should they be after all (REACHED) before others are ordered, it is not too late.
 * READY, SKIPPED: the node of rank 0 decides what is written, and in which order (save/save_policy.h): its turn has come,
 * or it stays in memory. What has stayed may still have its turn later.
 * PREPARED: the node's part is written. FAILED, of another epoch, too, while it is being written: the node's part has
 * failed: the save fails everywhere.
 * LEFT_OUT: a rank of the node had no free slot for the step, and goes on without it.
 * CLEARED, in any epoch: the node has nothing in the directory of a save that has failed. FORGOT, in any epoch: it knows
 * nothing of the save any more; when no node does it may be made anew, should it have failed.
 * SCHEDULE_WANTED: a rank of the node asks for a step that no schedule has, or will soon; and the newest that the node has.
 * SILENT: the ranks of the node stand still, and where each of them is; or they do no longer.
 * PACE: how far the ranks of the node have come, and how long they have waited.
 * SPILLED, in any epoch: what became of its part of a spill. */
void coord_input(struct coord *c, struct coord_from from, const struct peer_report *r);
/* Its ranks have finished. True when there were any. */
bool coord_leave(struct coord *c, uint32_t node);
bool coord_has_joined(const struct coord *c, uint32_t node);
/* A new epoch begins when it is lost. */
bool coord_needs(const struct coord *c, uint32_t node);
/* It is lost. */
void coord_gone(struct coord *c, uint32_t node, const char *why);
/* By a new plan its ranks are others', or it has others: they enter no epoch. It may end its saves, unless a node that has
 * a part of them is lost: then it takes no part any more, and true is returned. */
bool coord_moves(struct coord *c, uint32_t node);
/* All that join: what they have, they have by a plan that is over. */
void coord_invalidate_plan(struct coord *c, const char *why);
/* Somebody on the node knows of an epoch, while it is not known here who has entered which (after a restart). */
void coord_knows(struct coord *c, uint32_t node, enum coord_witness witness, uint32_t epoch);

/* The job goes back, and a new epoch begins. From then on, the newest step is looked for among those that are as old as
 * that, and those that are saved later. A request of an epoch before the last rollback changes nothing: several may ask
 * for the same reason. */
void coord_rollback(struct coord *c, struct coord_from from, const struct wire_rollback *to);

/* The world is about to change: if it has been entered, a new epoch begins, and until coord_release nobody enters it.
 * What cannot be written, since a node that has a part of it is not there, fails at once. */
void coord_hold(struct coord *c, const char *why);
/* It does not change after all. */
void coord_release(struct coord *c);
/* Who waits to enter enters, if nothing is in the way any more. */
void coord_admit(struct coord *c);
/* Of a world that is held, and lacks nodes: the newest snapshot of which every part stands in some memory is written to
 * storage, unless something newer is there. Nothing happens while it runs, or cannot begin: the epoch is not recorded
 * yet. */
void coord_spill_begin(struct coord *c);
/* A node that was asked what there is does not answer in time. No effect when more than that has happened. */
void coord_spill_give_up(struct coord *c);
/* What is told first of all that a restore passes over. */
void coord_preface(struct coord *c, const char *text);

/* Tells the nodes what has been found of a standstill; every tick. */
void coord_standstill_tick(struct coord *c);

void coord_surveyed(struct coord *c, const struct coord_survey *survey);
/* A node that was asked has not answered for so long: which (UINT32_MAX: one that is not there), and about which save.
 * False: there is none. That save fails then, for what is known already. */
bool coord_overdue(const struct coord *c, uint64_t ms, struct step_id *id, uint32_t *node);
void coord_give_up(struct coord *c, struct step_id id, const char *who);

/* From the coordinator's daemon. The directory is there; found: with a MANIFEST.json. */
void coord_made(struct coord *c, struct step_id id, bool found);
/* MANIFEST.json stands. */
void coord_sealed(struct coord *c, struct step_id id);
/* The directory cannot be made, or MANIFEST.json not written: the save fails everywhere. */
void coord_spoiled(struct coord *c, struct step_id id, int rc, const char *text);
/* What failed is out of the way. kept: or nobody knows, so that nothing of it may be deleted. */
void coord_left(struct coord *c, struct step_id id, bool kept);

struct coord_view {
	uint32_t epoch, entered, world, attending, joining;
	bool resuming;  /* it waits for those who are in the epoch */
	bool restoring; /* ranks wait to restore, or do */
	bool fresh;     /* no epoch was entered or raised under this incarnation of the coordinator */
	uint64_t stale; /* reports of another epoch */
	bool unserved; /* the ranks were refused what is there, and have gone on from nothing else: it stays for others */
	bool alike; /* ranks hold something alike, as far as is known: what is in memory fits who share a node as before */
	bool spilled;            /* what coord_spill_begin began has ended */
	const char *not_spilled; /* what was lost in it, and why; "": nothing */
	struct rollbacks back;
};
struct coord_view coord_view(const struct coord *c);
/* Why the epoch was raised. */
const char *coord_reason(const struct coord *c);

#endif
