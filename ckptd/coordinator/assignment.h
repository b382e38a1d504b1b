/* Assignment: which rank of a job is a process of which node. A pure function of what the nodes have offered and lost.
 *
 * Launchers offer processes. Each rank is given to a node as soon as there are as many processes as the job wants. If
 * that is not waited for any longer, as many as the job needs at least are enough. From then on:
 *
 *	a rank's process is lost for good, a node with all of them  → BROKEN: a plan is due at once
 *	   waiting nodes take the empty ranks, spares last; what then is left of the world is closed: the highest ranks go
 *	   into the gaps
 *	processes are offered while the world is smaller than wanted,
 *	   or a node is to be let go, and enough are left without it  → CHANGEABLE: a plan at the next occasion, when no step is lost by it
 *	the same, and too few would be left                           → ENDING: nothing can be planned that the job could go on with
 *
 * A node that is avoided gets new ranks where there is no other that could, without parting those that were on one node:
 * spares come before it. Until a spare is there, or node-wait is over, a world that would need it does not begin. What
 * has ranks there goes on.
 *
 * A sound process always goes on, and with its rank, unless that rank is beyond the end of the new world: then it is in
 * one of the gaps. No plan moves fewer. Where all nodes have equally many processes, and come and go whole, each has a
 * block of consecutive ranks.
 *
 * The ranks of a node divide among them what they hold alike. So what is in memory is of use only to ranks that share a
 * node with the same ranks as before. As long as the world keeps its size, the ranks of a lost node therefore stay
 * together where one node, which has none, has room for all of them. Where memory is all that there is (whole) sound
 * processes, too, are let go for that: with the one of their node that is lost. */
#ifndef CKPTD_COORDINATOR_ASSIGNMENT_H
#define CKPTD_COORDINATOR_ASSIGNMENT_H

#include <stdbool.h>
#include <stdint.h>

#define ASSIGNMENT_NOBODY UINT32_MAX
#define ASSIGNMENT_NEW UINT32_MAX

enum assignment_state {
	ASSIGNMENT_WAITING = 0, /* no world yet, and fewer processes than wanted */
	ASSIGNMENT_READY,       /* no world yet, and as many as wanted without spares */
	ASSIGNMENT_SOUND,
	ASSIGNMENT_CHANGEABLE,
	ASSIGNMENT_ENDING,
	ASSIGNMENT_BROKEN,
};

struct assignment_node {
	uint32_t offers; /* processes that can take part */
	uint32_t has;    /* that do */
	uint32_t home;   /* ranks that it had last, those included whose process is lost */
	uint32_t lost;   /* of them, while a plan is made: those whose process is */
	bool spare;
	bool leaving; /* the next plan does without it */
	bool avoided; /* others are preferred to it (control/lemon/set_aside.h) */
	bool awaited; /* it has ranks by a plan that was recalled, and has yet to say which of them it keeps */
};

struct assignment {
	uint32_t nnodes;
	uint32_t want, least; /* ranks: more than the one are not used, with fewer than the other the job waits */
	uint32_t world;       /* 0: none yet */
	uint32_t number;      /* of the plan that holds, from 1 on */
	bool whole;           /* better that sound processes are let go than that the ranks of a node are parted */
	struct assignment_node *nodes;
	uint32_t *node;   /* by rank, of `world`: whose it is; ASSIGNMENT_NOBODY: its process is lost */
	uint32_t *home;   /* by rank: whose it was last; ASSIGNMENT_NOBODY: that is not known */
	uint32_t *sorted; /* room for all nodes */
	uint32_t *
		was; /* by rank: the one that its process had before the last plan; ASSIGNMENT_NEW: one is to be started */
};

/* 1 <= least <= want. 0 or -ENOMEM. */
int assignment_init(struct assignment *assignment, uint32_t nnodes, uint32_t want, uint32_t least);
void assignment_free(struct assignment *assignment);

/* Another one has planned, and this is on record of it, by rank: `home` (ASSIGNMENT_NOBODY: a node that is none here) and
 * `was`. No node has a rank until it claims the rank, or takes up its own. 1 <= world <= want. */
void assignment_recall(struct assignment *assignment, uint32_t number, uint32_t world, const uint32_t *home,
		       const uint32_t *was);
/* The node, which has not heard of it yet, has all ranks that it was given by that plan. */
void assignment_take_up(struct assignment *assignment, uint32_t node);
/* The same, and we know only which plan it was and how large its world. */
void assignment_adopt(struct assignment *assignment, uint32_t number, uint32_t world);
/* The node's processes have these ranks of the plan that holds, as far as no other node has them. Its other ranks are
 * lost, and it does not replace them. */
void assignment_claim(struct assignment *assignment, uint32_t node, const uint32_t *ranks, uint32_t n);
/* Of some ranks of a plan that was recalled or adopted, no node has said yet whether it keeps them. */
bool assignment_unclaimed(const struct assignment *assignment);
/* Ranks that the node had last, those included whose process is lost. */
uint32_t assignment_home(const struct assignment *assignment, uint32_t node);
/* The node can have so many processes in all; 0: it takes part no longer. If that is less than it has, those with the
 * highest ranks are lost. A spare is taken only where nobody else is left. */
void assignment_offer(struct assignment *assignment, uint32_t node, uint32_t processes, bool spare);
/* It is to be let go, or is not any more. */
void assignment_leave(struct assignment *assignment, uint32_t node, bool leaving);

/* Others are preferred to it, or not any more. */
void assignment_avoid(struct assignment *assignment, uint32_t node, bool avoided);

enum assignment_state assignment_state(const struct assignment *assignment);
/* The size of the world that is planned next, should that be now. */
uint32_t assignment_next_world(const struct assignment *assignment);
/* The next plan would leave the world as large as it is, and each rank with those that it has shared a node with, and
 * nobody else. False also where that is not known, or there is no memory to find it out. */
bool assignment_keeps(const struct assignment *assignment);
/* Gives every rank to a node: world, node and was are new. -EAGAIN: fewer processes than the job needs at least, nothing
 * has changed. */
int assignment_plan(struct assignment *assignment);

#endif
