/* Membership: which nodes are there for a job whose world may change, and when its ranks are planned anew. It stands
 * where the job's host does (control/host/coordinator_host.h). It begins before the host: with the first node whose launcher
 * offers processes (CAPACITY).
 *
 *   GATHERING ── all wanted processes are there; or enough, and the others were waited for ──► plan 1
 *   AT_WORK   ── a rank is lost for good, and no spare has room for it, or for all ranks of its node;
 *                or a node is lost, and was waited for;
 *                or at the next save (if the world can grow, or a node is to go: ranks wait in the fence for the next
 *                epoch)
 *             ──► SETTLING: nobody enters an epoch; the newest snapshot in memory goes to storage
 *                 ── no node has anything under way ──► the next plan
 *                 (if a node is lost: the nodes that have the snapshot write it first, and a holder of copies writes the
 *                 part of the lost node: job/spill.h)
 *
 * A loss that needs no quiescing: the world keeps its size (spares take all empty ranks), and the ranks of each node stay
 * together (coordinator/assignment.h). Then the state is in the memory of other nodes. Without a store, the membership
 * waits for other nodes until that is so, or node-wait is over. Then the state is lost.
 *
 * After quiescing, the host is made anew, in a new epoch. The plan is recorded beside the epoch (control/record/epoch_record.h).
 * Then each node is told its part (PLAN), and joins. A node that comes back with an older plan is told the present one.
 *
 * The next coordinator reads which plan holds, and which node was given which ranks. As soon as a node follows a plan of
 * the job, the plan on record goes on. Its nodes say which of their ranks they keep, and a node that has not heard of it
 * is told. Ranks that no node claims in time are lost.
 *
 * Without a store and a registry nothing is on record. After a restart of this daemon, the nodes decide by what they say:
 *  - The newest plan that some node was given holds. A rank belongs to the node that claims it. Ranks that no node claims
 *    in time are lost.
 *  - A node that knows only the plan before keeps its ranks until all ranks are claimed, or that time is over. After that
 *    it still has those that no other node has claimed, if the world has the same size.
 *  - A plan that only nodes without ranks know holds, too, when the nodes that would make the first plan are there. All
 *    its ranks are waited for, and then lost. What they had in memory may be with other nodes.
 *  - Two coordinators that know nothing of each other may give two plans one number. Suppose a node names a rank that is
 *    another node's by the plan that holds. Then it follows the other plan, and none of its ranks counts. */
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
/* The node joins by the plan that holds, with so many ranks, as far as it knows. -EINVAL: it joins by another plan. */
int membership_node_joins(struct control *control, const char *job, uint32_t node, uint32_t nranks, struct err *err);
/* The node would join by an earlier plan. If it has no ranks by the plan that holds, it is told that plan. */
void membership_joins_by(struct control *control, const char *job, uint32_t node, uint32_t plan);
/* Which node has which ranks by that plan, for the record; number 0: no plan is made here yet. Of a plan that nodes told
 * of, and that is not on record, only the number is known. To be freed. -ENOMEM. */
int membership_plan_record(const struct control *control, const char *job, struct plan_record *plan);
/* That plan is on record: its nodes may be told. */
void membership_recorded(struct control *control, const char *job, uint32_t number);
/* A save has reached this level on all nodes. */
void membership_shown(struct control *control, const char *job, struct step_id id, enum level_shown level);
/* A node cannot get its copies of that snapshot made. */
void membership_uncopied(struct control *control, const char *job, struct step_id id, const char *why);
/* The ranks of a node have finished. True when others are at work. */
bool membership_left(struct control *control, const char *job, uint32_t node);
/* The ranks of a node have not finished, and are not there any more: they are lost for good, or belong to other nodes by
 * now. last: no node joins any more. False: no other node could take them. */
bool membership_deserted(struct control *control, const char *job, uint32_t node, bool last);
/* What was asked of the processes at work, kept while the host could not be made anew. */
struct coordinator_halt;
void membership_keep_halt(struct control *control, const char *job, const struct coordinator_halt *halt);
void membership_kept_halt(const struct control *control, const char *job, struct coordinator_halt *halt);
/* Another daemon plans the job, or may. */
void membership_depose(struct control *control, const char *job);
/* All ranks have finished, or no process is left. A node that still offers processes is told so. */
void membership_over(struct control *control, const char *job, bool finished);
/* Only arenas of processes that are gone are left on that node, of a run that has finished: true, and the node is told. */
bool membership_tells_gone(struct control *control, uint32_t node, const struct peer_report *report);
/* It is not known whether the end is on record: either it is, or the job goes on. */
void membership_past_forget(struct control *control, const char *job);

/* Drains a node: its ranks go to other nodes, and it gets no more. Or it may have ranks again. job: "" for the only one.
 * -EINPROGRESS: as soon as that is on record.
 * -ENOENT: no such job is planned here, or no such node.
 * -EBUSY: too few ranks would be left.
 * -EINVAL: what they have would be lost.
 * -ECANCELED: the launcher of the node ends; only when it does not end any more, the node may have ranks again.
 * -EAGAIN: another such order waits for the record, or there is no record yet. */
int membership_drain(struct control *control, const char *job, const char *node, bool drained, struct err *err);

/* The node has no ranks nevertheless, because its launcher ends: -ECANCELED. */
int membership_departs_all_the_same(const char *job, const char *node, struct err *err);
/* For the record: how often a drain was asked of the job; 0: never, or the job is not known here. And the nodes that are
 * drained when the last request is on record: to be freed. -ENOENT: not known here. */
uint32_t membership_asks(const struct control *control, const char *job);
int membership_asked(const struct control *control, const char *job, struct asked_record *asked);
/* The requests up to that one are on record. */
void membership_asked_recorded(struct control *control, const char *job, uint32_t asks);

struct membership_drained {
	char job[NAME_JOB_MAX];
	uint32_t ranks; /* that the node still has; 0 also when the job has ended */
	bool asked;     /* the node is to go, whoever asked for it */
	bool departs;   /* because its launcher was told to end */
	bool waits;     /* the last request is not on record yet */
	const char *stuck;
};
/* -EBUSY: the node may have ranks, or get them again: not all nodes with ranks are there. */
int membership_drained(struct control *control, const char *job, const char *node, struct membership_drained *is,
		       struct err *err);

/* The job goes on without the missing nodes and what they may have in memory: they were waited for. */
bool membership_gives_up(const struct control *control, const char *job);

/* Since the last plan, or a plan that is not known here, ranks share a node with other ranks than before, and nothing was
 * saved since. So what is only in memory may fit no rank. */
bool membership_parted(const struct control *control, const char *job);

/* The node is set aside, or no longer is. */
void memberships_weigh(struct control *control, uint32_t node);
/* The node is lost: to all jobs, except those of which that is not known yet (control/election/hand_over.h); to one job. */
void memberships_node_down(struct control *control, uint32_t node);
void membership_node_down(struct control *control, const char *job, uint32_t node);
void memberships_tick(struct control *control);
/* For how many nodes there is room. */
unsigned memberships_room(const struct control *control);
void memberships_free(struct control *control);

struct membership_view {
	const char *job;
	const struct assignment *assignment;
	bool spread, quiescing;
	bool untold;       /* the plan is not on record yet, and nobody has heard of it */
	const char *stuck; /* why a wanted change did not come at the last save; "": no reason is known */
};
/* One after the other; false: there is no further one. *at: NULL at first. */
bool membership_next(const struct control *control, const struct membership **at, struct membership_view *view);

#endif
