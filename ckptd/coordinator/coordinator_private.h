/* Private to this room. */
#ifndef CKPTD_COORDINATOR_COORDINATOR_PRIVATE_H
#define CKPTD_COORDINATOR_COORDINATOR_PRIVATE_H

#include "coordinator/coordinator.h"
#include "coordinator/restore/restore_candidates.h"
#include "coordinator/save/node_holdings.h"
#include "coordinator/tables.h"
#include "coordinator/watch/straggling.h"

enum coord_step { COORD_IDLE = 0, COORD_LOOK, COORD_FETCH, COORD_STEP_END };

struct coord_node {
	uint32_t ranks; /* 0: it does not take part */
	bool knows;     /* of an epoch of this job: of another one it is told by a raise */
	bool in;        /* its ranks have entered this epoch */
	bool finished;  /* they have said goodbye and ended: until they are needed again */
	bool joining, restoring;
	bool moved; /* its ranks are others' by the plan that holds, which it has yet to follow */
	bool shares_known, parts_known;
	bool silent;                   /* its ranks are (coordinator/watch/standstill.c) */
	bool schedule_heard;           /* it has said what it has, since this coordinator asks */
	struct job_blobs blobs;        /* of each of its ranks that wait to enter */
	bool goes_on;                  /* then: somebody there has been in an epoch */
	struct node_holdings holdings; /* of what is replicated */
	uint32_t owned;   /* ranks of which it was the owner when it joined last; others may be that by now */
	uint32_t asked;   /* of its shares, as bits: whose pieces it was told to list; 0: it has answered, or was not */
	uint64_t step;    /* that it wants to restore */
	bool answered;    /* to the order of the restore that runs */
	uint32_t ncopied; /* steps that it has copied in the epoch, as it has said to a coordinator that takes over */
	struct peer_copied copied[PEER_MEMORY];
	bool copy_held,
		copy_ended; /* of the save that is copied now: its ranks have all their copies; it has answered */
};

struct coord_restore {
	enum coord_step state;
	uint32_t ranks;        /* of the nodes that wait to restore */
	uint32_t waiting;      /* nodes that have not answered */
	uint64_t step;         /* that they want; or STEP_NEWEST, STEP_NEWEST_HEALTHY */
	struct rollbacks back; /* what they give up is not wanted */
	struct candidates candidates;
	struct peer_choice choice;
	bool surveyed, planned, parted;
	bool passed_over;                   /* something that may not be taken for lost */
	bool others;                        /* the job has saved something, which is not what is wanted */
	struct step_id stored[PEER_STORED]; /* that a node has seen on storage, the last that has said so */
	uint32_t nstored;
	uint32_t unheard; /* nodes that may hold copies, by name */
	char names[64];
	struct coord_held *held; /* what the survey has found, of all worlds (coordinator/restore/other_world.h) */
	size_t nheld;
	uint32_t recut; /* the world of which the choice is cut anew; 0: it is of the ranks themselves */
	int storage_rc; /* the store could not be read */
	int rc;         /* of the fetch: the worst that a node has reported */
	char text[WIRE_TEXT_MAX];
};

/* What is in memory only is brought to storage before the world changes (coordinator/restore/spill.c). */
enum coord_spill_state {
	SPILL_NONE = 0,
	SPILL_LOOK,   /* what there is, as for a restore */
	SPILL_GATHER, /* all parts are to stand somewhere, checked */
	SPILL_MAKE,   /* the directory */
	SPILL_WRITE,
	SPILL_SEAL,
	SPILL_DROP,  /* it has failed: first the directory is moved out of the way */
	SPILL_CLEAR, /* then what was written is deleted */
	SPILL_ENDED,
	SPILL_STATE_END
};

struct coord_spill {
	enum coord_spill_state state;
	struct step_id id, as;        /* which snapshot; the name under which it is written */
	uint32_t waiting;             /* parts of which the order that runs is not answered */
	uint64_t asked_ns;            /* when that was given last */
	struct coord_spiller *owners; /* by node whose ranks they were; NULL: nothing is under way */
	struct coord_sender *senders; /* by rank; NULL: nobody has said who holds copies */
	uint32_t *had;                /* by rank: the node that had it, or COORD_NOBODY */
	bool *remembered;             /* by rank: that node has said so, and has something in memory */
	char text[WIRE_TEXT_MAX];     /* what newer was lost, and why */
};

/* The last that it has brought there. */
struct coord_brought {
	struct step_id id, as; /* epoch 0: nothing yet */
};

enum {
	COORD_LEFT_OUT = 32, /* a capture may take as many steps */
	/* A node has some hundred at most that it has not forgotten (save/slot_reclaim.c). One that tells of ever new
	 * ones takes no more memory than for these. */
	COORD_SAVES_MAX = 4096,
};

/* A save that is refused wherever it comes from. */
struct coord_left_out {
	struct step_id id; /* epoch 0: unused */
	int rc;
	const char *why;
};

struct coord_copy {
	struct step_id id;    /* that the nodes were ordered to copy last; epoch 0: none */
	uint32_t held, ended; /* ranks of the nodes that have said so */
	bool shown;
	bool showing; /* nobody is to give it up for the next one before all have been told; what the first one answers must wait */
};

/* Which steps are saved (coordinator/save/schedule.c). */
struct coord_schedule {
	uint32_t epoch;       /* that this is of */
	bool known;           /* nobody has told of a later one; else not all nodes have said what they have */
	struct schedule last; /* that was told; number 0: none */
};

/* Whether all ranks stand still, and who the others wait for (coordinator/watch/standstill.c). */
struct coord_standstill {
	uint32_t silent;     /* ranks of the nodes whose ranks are */
	struct suspect *all; /* by rank: of nodes that are silent, as was reported last; NULL: none was yet */
	bool changed;        /* it is to be judged anew */
	uint64_t told_ns;    /* when the nodes were told last */
	struct peer_standstill told;
};

struct coord {
	const struct coord_orders *orders;
	char job[NAME_JOB_MAX];
	uint32_t world, nnodes;
	uint32_t epoch, entered;
	bool fresh, resumed;
	bool unserved;  /* a restore was refused although there is something, and nothing was saved or restored since */
	bool has_saved; /* there was a snapshot, or may have been before this incarnation of the coordinator */
	/* the last epoch in which a save was reported here, or that went on from an earlier coordinator */
	uint32_t used;
	bool held;                /* nobody enters */
	bool resuming;            /* the epoch was entered under another coordinator, and not all have come yet */
	char ends[WIRE_TEXT_MAX]; /* then: why it ends when they have, or are late; "": it goes on */
	bool persisting;          /* nobody is told of the epoch yet */
	/* the rank whose loss ended the epoch that all had entered; COORD_NOBODY: it was not a loss, or they are in
	 * one */
	uint32_t lost;
	enum lost_kind loss; /* its kind */
	char reason[WIRE_TEXT_MAX];
	uint32_t attending; /* ranks of the nodes that take part */
	uint32_t joining;   /* of them: of the nodes that wait to enter */
	uint32_t informed;  /* of them: of the nodes that have said what they hold alike */
	uint32_t finished;  /* nodes whose ranks have all finished */
	bool divided;       /* nodes have been told, or may have been, who writes what they hold alike */
	uint64_t stale;
	struct coord_node *nodes;
	uint32_t *sorted; /* room for all of them */
	uint32_t *owners; /* by rank: the node that it wants to enter from */
	uint32_t *lens;   /* by rank, of its address */
	uint8_t *addresses;
	struct tables tables; /* of those that wait to enter */
	bool comparing;       /* them */
	struct rollbacks back;
	struct coord_restore restore;
	struct coord_spill spill;
	struct coord_brought brought;
	char preface[WIRE_TEXT_MAX]; /* what is told first of all that a restore passes over */
	struct coord_copy copy;
	uint32_t restored_in; /* the last epoch in which the ranks have restored something */
	struct coord_schedule schedule;
	struct coord_standstill standstill;
	struct straggling straggling;
	struct step_id replicated; /* the newest that was shown so; epoch 0: none */
	struct step_id deviated;   /* the first in which replicas differed, since the epoch began; epoch 0: none */
	struct coord_left_out left_out[COORD_LEFT_OUT]; /* a ring */
	unsigned nleft_out;                             /* ever */
	int undivided_rc;                               /* what nodes hold alike cannot be divided: 0, or why */
	struct err undivided;                           /* in words */
	struct list saves;                              /* struct coord_save, by (epoch, step) */
	uint32_t nsaves;                                /* of them */
};

/* coordinator/states.c: the only places where these change; another transition than those of its tables is a defect. */
void coord_set_restore(struct coord *c, enum coord_step state);
void coord_set_spill(struct coord *c, enum coord_spill_state state);

/* coordinator/orders.c. order: all but the name of the job. */
void coord_order(struct coord *c, uint32_t node, struct peer_order *order);
void coord_order_word(struct coord *c, uint32_t node, enum peer_type type, struct peer_word word, const char *text);
void coord_order_save(struct coord *c, uint32_t node, enum peer_type type, struct step_id id);
/* PEER_FAIL or PEER_SKIP, and why. storage: towards storage alone. */
void coord_order_failure(struct coord *c, uint32_t node, enum peer_type type, struct step_id id, bool storage, int rc,
			 const char *text);
void coord_order_level(struct coord *c, uint32_t node, struct step_id id, enum level_shown level);
/* What the node wrote of a save that has failed is deleted, unless it is to be kept. */
void coord_order_clear(struct coord *c, uint32_t node, struct step_id id, bool kept);

/* coordinator/resume.c. True: it was in the epoch, and is told what becomes of that when all have come. */
bool coord_resume_joins(struct coord *c, struct coord_from from, const struct peer_node_join *m);
/* It does not go on. It ends at once, or when all have said what they have copied in it. */
void coord_resume_end(struct coord *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* It ends: what all had copied counts. */
void coord_resume_count(struct coord *c);

/* What is reported, by message (coordinator/input.c). */
void coord_node_join(struct coord *c, struct coord_from from, uint32_t nranks, uint32_t known);
/* To be said before it joins; epoch 0: it was told of nothing. */
void coord_recall(struct coord *c, struct step_id replicated);
/* Before the node hears of another epoch, or is ordered copies of something newer, with which it would give up what it does not know to be
 * needed: the others may have given up all that is older. */
void coord_pin(struct coord *c, uint32_t node);
void coord_shares(struct coord *c, uint32_t node, const struct shares *shares);
/* False: it does not stand in the epoch of the job, of which it is told when it joins. */
bool coord_finished(struct coord *c, struct coord_from from, uint32_t nranks);
void coord_spilled(struct coord *c, uint32_t node, const struct peer_spilled *spilled);
void coord_want(struct coord *c, struct coord_from from, uint32_t rank);
void coord_joining(struct coord *c, struct coord_from from, const struct peer_node_ready *joining);
void coord_not_joining(struct coord *c, struct coord_from from);
void coord_tensors(struct coord *c, struct coord_from from, const struct peer_tensors *m);
/* coordinator/agree.c: all ranks that wait to enter. False: not yet, or they are refused. */
bool coord_agree(struct coord *c);
/* The first that is on the node; COORD_NOBODY: none. */
uint32_t coord_rank_of(const struct coord *c, uint32_t node);
/* One of those before it is the same. */
bool coord_named_before(const uint32_t *ranks, uint32_t i);
/* Once all wait, and nothing is against it. */
void coord_try_enter(struct coord *c);
void coord_set_joining(struct coord *c, uint32_t node, bool joining);
void coord_lost(struct coord *c, struct coord_from from, uint32_t rank, bool was_in, const char *why);
void coord_missing(struct coord *c, struct coord_from from, uint32_t rank);
void coord_restoring(struct coord *c, struct coord_from from, uint64_t step);
void coord_not_restoring(struct coord *c, struct coord_from from);
void coord_found(struct coord *c, struct coord_from from, const struct peer_restore_candidates *found);
void coord_fetched(struct coord *c, struct coord_from from, const struct peer_save *fetched);
void coord_copied(struct coord *c, struct coord_from from, struct step_id id);
void coord_reached(struct coord *c, struct coord_from from, struct step_id id, enum level_shown level);
void coord_replica_digests(struct coord *c, struct coord_from from, const struct peer_replica_digests *replica_digests);
void coord_compared(struct coord *c, struct coord_from from, const struct peer_compared *compared);
void coord_uncopied(struct coord *c, struct coord_from from, struct step_id id);
void coord_ready(struct coord *c, struct coord_from from, struct step_id id);
void coord_passed(struct coord *c, struct coord_from from, struct step_id id, int rc, const char *text);
void coord_prepared(struct coord *c, struct coord_from from, struct step_id id, const struct peer_part *part);
void coord_failed(struct coord *c, struct coord_from from, struct step_id id, bool storage, int rc, const char *text);
void coord_left_out(struct coord *c, struct coord_from from, struct step_id id);
void coord_cleared(struct coord *c, uint32_t node, struct step_id id);
void coord_forgot(struct coord *c, uint32_t node, struct step_id id);

void coord_schedule_wanted(struct coord *c, struct coord_from from, const struct peer_schedule_wanted *m);
/* All have entered an epoch that nobody has told of schedules in. */
void coord_schedule_enter(struct coord *c);

void coord_silent(struct coord *c, struct coord_from from, const struct peer_silent *m);
/* The node may have other ranks from now on; all may be at something else. */
void coord_standstill_leave(struct coord *c, uint32_t node);
void coord_standstill_forget(struct coord *c);

void coord_pace(struct coord *c, struct coord_from from, const struct peer_pace *m);

/* coordinator/finish.c, coordinator/save/shared_files.c: what is counted of nodes. */
void coord_set_finished(struct coord *c, uint32_t node, bool finished);
void coord_set_informed(struct coord *c, uint32_t node, bool informed);
/* The node has so many from now on; what it has said of others is undone. */
void coord_set_ranks(struct coord *c, uint32_t node, uint32_t nranks);
/* Some node has begun to wait to enter, or another one has gone: those that have finished are told where they stand. */
void coord_finishes(struct coord *c);
/* False: of another epoch, counted. */
bool coord_current(struct coord *c, struct coord_from from);
void coord_raise(struct coord *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The epoch has moved on, or a node has gone: what ran is not answered any more (coordinator/restore/restore.c,
 * coordinator/save/save.c). */
void coord_restore_forget(struct coord *c);
/* It has become durable. */
void coord_restore_stored(struct coord *c, struct step_id id);
void coord_saves_poison(struct coord *c);
/* Those whose directory is there are ordered to be written, now that the parts are known. */
void coord_saves_write(struct coord *c);
/* coordinator/save/shared_files.c: whether it is known who writes which part; it is not any more, since another node joins
 * or one has gone. */
bool coord_parts_known(struct coord *c);
void coord_parts_forget(struct coord *c);
/* Some ranks hold something alike; or nobody has said that they do not. */
bool coord_alike(const struct coord *c);
void coord_saves_hold(struct coord *c);
/* One is on its way to storage, and may arrive there. */
bool coord_saves_written(const struct coord *c);
/* Those that waited for the end of a spill are written now. */
void coord_saves_resume(struct coord *c);
/* The node takes part, as it did not before. */
void coord_saves_node_join(struct coord *c, uint32_t node);
/* The node takes part no longer; its ranks are still counted. */
void coord_saves_leave(struct coord *c, uint32_t node);
/* After more nodes than before have joined. */
void coord_saves_crowd(struct coord *c);
void coord_saves_free(struct coord *c);
struct step_id coord_newest_captured(const struct coord *c); /* epoch 0: none */
void coord_show_replicated(struct coord *c, struct step_id id);
/* Copies of a save are wanted; of the next one, if it is time for that; of none any more (coordinator/save/copy.c). */
void coord_copy_begin(struct coord *c, struct step_id id);
/* All ranks have restored it: the first copies of their epoch. */
void coord_copy_restored(struct coord *c, struct step_id id);
void coord_copy_next(struct coord *c);
void coord_copy_forget(struct coord *c);
/* What coord_reached hears of LEVEL_REPLICATED. */
void coord_replicated(struct coord *c, struct coord_from from, struct step_id id);

/* Asks all nodes what there is; when all have answered, coord_spill_choose or the choice of a restore. */
void coord_look(struct coord *c, uint64_t step);
/* Enters what is newer than restore.choice, older than `before`, and cannot be had, into what was passed over. */
void coord_tell_gaps(struct coord *c, const uint32_t *owners, struct step_id before);
/* The newest of another world, of which a part is lacking. */
void coord_tell_other_gap(struct coord *c);
void coord_add_why(char *why, const char *text);
struct coord_survey coord_held_of(const struct coord_restore *r);

/* coordinator/save/skipped_saves.c: some rank has no part of it and never will, or nobody here can remember it. NULL: none
 * of the last few. */
const struct coord_left_out *coord_was_left_out(const struct coord *c, struct step_id id);
/* Nothing is known of it. All nodes are told, and who comes with it later, too. why: stays. */
void coord_leave_out(struct coord *c, struct step_id id, int rc, const char *why);

/* coordinator/save/manifest.c */
/* parts: by node; those without a name have none. */
int coord_manifest(const struct coord *c, struct step_id id, const struct peer_part *parts, struct wbuf *out);

/* coordinator/restore/spill.c */
/* Which node has which rank, as the nodes that have them say, and those that hold copies: no node may have told this
 * incarnation of the coordinator. */
void coord_spill_hear(struct coord *c, uint32_t node, const struct peer_restore_candidates *found);
void coord_spill_survey(struct coord *c, const struct coord_survey *survey);
void coord_spill_choose(struct coord *c);
/* True: it looked at what there is. */
bool coord_spill_interrupt(struct coord *c);
/* It has chosen, and is not at its end. */
bool coord_spill_writes(const struct coord *c);
void coord_spill_free(struct coord *c);
void coord_spill_gone(struct coord *c, uint32_t node);
/* What became of a directory; false: it is not that of the spill. */
bool coord_spill_made(struct coord *c, struct step_id id, bool found);
bool coord_spill_sealed(struct coord *c, struct step_id id);
bool coord_spill_spoiled(struct coord *c, struct step_id id, int rc, const char *text);
bool coord_spill_left(struct coord *c, struct step_id id, bool kept);

#define coord_each(c, n)                                                                                               \
	for (uint32_t n = 0; n < (c)->nnodes; n++)                                                                     \
		if ((c)->nodes[n].ranks)

#endif
