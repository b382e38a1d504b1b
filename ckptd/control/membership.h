/* Membership: who is there for a job whose world may change, and when it is planned anew. It stands where the job's host
 * does (control/coordinator_host.h), and begins before it: with the first node whose launcher offers processes
 * (CAPACITY).
 *
 *   GATHERING ── all that are wanted are there; or enough, and the others were waited for ──► plan 1
 *   AT_WORK   ── a rank is lost for good, and spares have no room for it, or none for all ranks of its node,
 *                or a node was, and was waited for;
 *                or at the next save (if it can grow, or a node is to be let go; ranks wait in its fence for the next epoch)
 *             ──► SETTLING: nobody enters an epoch; what is newest in memory goes to storage ── all have nothing under way ──►
 *                 the next plan
 *                 (where a node is lost, that is first written by those who have it, and for the lost one by who holds
 *                 its copies: job/spill.h)
 *
 * Where the world keeps its size (spares take all the empty ranks), and the ranks of each node stay together
 * (coordinator/assignment.h), a loss needs no quiescing: the state is in the memory of other nodes. Without a store the
 * others are waited for until that is so, or node-wait is over; then it is lost. What was quiesced makes the host anew,
 * in a new epoch. The plan is recorded beside the epoch (control/epoch_record.h); then each node is told its part (PLAN),
 * and joins. A node that comes back with an older plan is told the present one.
 *
 * Whoever coordinates next reads which plan holds, and who was given what. As soon as somebody follows a plan of the job,
 * that one goes on: its nodes say which of their ranks they keep, and who has not heard of it is told. What nobody has
 * claimed in time is lost.
 *
 * Without a store and a registry nothing is on record, and what the nodes say outlives a restart of this daemon: the
 * newest plan that somebody was given holds, ranks are whose who claims them, and those that nobody has claimed in time
 * are lost. Who has heard only of the plan before it keeps what he has until all ranks are claimed, or that time is over:
 * what nobody else has claimed then is his still, where the world is as large. A plan of which only nodes without ranks
 * know holds, too, when those who would make the first one are there: all its ranks are waited for, and then lost, but
 * what they had in memory may be with others. Two coordinators that know nothing of each other may give two plans one
 * number: a node that names a rank which is another node's by the plan that holds follows the other one, and none of its
 * ranks counts. */
#ifndef CKPTD_CONTROL_MEMBERSHIP_H
#define CKPTD_CONTROL_MEMBERSHIP_H

#include "format/files/asked_record.h"
#include "format/files/plan_record.h"
#include "format/message/peer_coord.h"

struct control;
struct membership;

/* CAPACITY or QUIESCED. What cannot be offered is answered by REJECT. */
void membership_report(struct control *control, uint32_t node, bool spread, const struct peer_report *report);
/* The number of the plan that the job follows; 0: its world does not change. */
uint32_t membership_plan(const struct control *control, const char *job);
/* The node joins by the plan that holds: it has so many ranks, as far as it knows. -EINVAL: not by that plan. */
int membership_node_joins(struct control *control, const char *job, uint32_t node, uint32_t nranks, struct err *err);
/* The node would join by another plan, with ranks that are not its any more by the one that holds, if it has none by that: it is told. */
void membership_joins_by(struct control *control, const char *job, uint32_t node, uint32_t plan);
/* Which node has which ranks by that plan, for the record; number 0: none is made here yet. In one that nodes have told
 * of, and that is not on record, only the number is known. To be freed. -ENOMEM. */
int membership_plan_record(const struct control *control, const char *job, struct plan_record *plan);
/* That plan is on record: its nodes may be told. */
void membership_recorded(struct control *control, const char *job, uint32_t number);
/* A save has reached this level on all nodes. */
void membership_shown(struct control *control, const char *job, struct step_id id, enum level_shown level);
/* A node cannot have its copies of it made. */
void membership_uncopied(struct control *control, const char *job, struct step_id id, const char *why);
/* The ranks of a node have finished. True when others are at work. */
bool membership_left(struct control *control, const char *job, uint32_t node);
/* They have not, and are not there any more: lost for good, or others' by now. last: nobody joins. False: nobody else
 * could take them up. */
bool membership_deserted(struct control *control, const char *job, uint32_t node, bool last);
/* What was asked of those who are at work, while there is no host that knows: it could not be made anew. */
struct coordinator_halt;
void membership_keep_halt(struct control *control, const char *job, const struct coordinator_halt *halt);
void membership_kept_halt(const struct control *control, const char *job, struct coordinator_halt *halt);
/* Another daemon plans the job, or may. */
void membership_depose(struct control *control, const char *job);
/* All ranks have finished, or nobody is left. Whoever offers processes to what is over is told so. */
void membership_over(struct control *control, const char *job, bool finished);
/* Nothing but arenas of processes that are gone is left on that node, of a run that has finished: true, it is told that. */
bool membership_tells_gone(struct control *control, uint32_t node, const struct peer_report *report);
/* Nobody knows whether that stands on record: it does, or the job goes on. */
void membership_past_forget(struct control *control, const char *job);

/* The node's ranks are to go to others, and it is given no more of them; or it may have some again. job: "" for the only
 * one. -EINPROGRESS: as soon as it is on record. -ENOENT: no such job is planned here, or no such node; -EBUSY: too few
 * ranks would be left; -EINVAL: what they have would be lost; -ECANCELED: it has some again only when its launcher does
 * not end any more; -EAGAIN: another such order waits for the record, or there is none yet. */
int membership_drain(struct control *control, const char *job, const char *node, bool drained, struct err *err);

/* It has none all the same: -ECANCELED. */
int membership_departs_all_the_same(const char *job, const char *node, struct err *err);
/* How often that was asked of the job, for the record; 0: never, or nobody here knows the job. And the nodes that are
 * drained when what was asked last is on record: to be freed. -ENOENT: nobody here knows. */
uint32_t membership_asks(const struct control *control, const char *job);
int membership_asked(const struct control *control, const char *job, struct asked_record *asked);
/* It is on record, up to that one. */
void membership_asked_recorded(struct control *control, const char *job, uint32_t asks);

struct membership_drained {
	char job[NAME_JOB_MAX];
	uint32_t ranks; /* that the node has still; 0 also when the job has ended */
	bool asked;     /* it is to be let go, by whomever */
	bool departs;   /* by its launcher, which was told to end */
	bool waits;     /* what was asked of it last is not on record yet */
	const char *stuck;
};
/* -EBUSY: the node may have ranks, or have them again: not all who have some are there. */
int membership_drained(struct control *control, const char *job, const char *node, struct membership_drained *is,
		       struct err *err);

/* The job goes on without the nodes that are not there, and what they may have in memory: they were waited for. */
bool membership_gives_up(const struct control *control, const char *job);

/* Since the last plan, or one that is not known here, ranks share a node with others than before, and nothing was saved
 * there: what is in memory only may fit nobody. */
bool membership_parted(const struct control *control, const char *job);

/* The node is set aside, or not any more. */
void memberships_weigh(struct control *control, uint32_t node);
/* Of all jobs but those of which that is not known yet (control/hand_over.h); of one. */
void memberships_node_down(struct control *control, uint32_t node);
void membership_node_down(struct control *control, const char *job, uint32_t node);
void memberships_tick(struct control *control);
/* So many nodes there is room for. */
unsigned memberships_room(const struct control *control);
void memberships_free(struct control *control);

struct membership_view {
	const char *job;
	const struct assignment *assignment;
	bool spread, quiescing;
	bool untold; /* the plan is not on record yet, and nobody has heard of it */
	const char
		*stuck; /* why a change that is wanted has not come at the last save; "": nothing is known against it */
};
/* One after the other; false: that was the last. *at: NULL at first. */
bool membership_next(const struct control *control, const struct membership **at, struct membership_view *view);

#endif
