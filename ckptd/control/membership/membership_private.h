/* Private to membership*.c. */
#ifndef CKPTD_CONTROL_MEMBERSHIP_PRIVATE_H
#define CKPTD_CONTROL_MEMBERSHIP_PRIVATE_H

#include "base/clock.h"
#include "base/repeat.h"
#include "control/control.h"
#include "control/host/coordinator_halt.h"
#include "control/host/coordinator_host.h"
#include "control/membership/membership.h"
#include "coordinator/room.h"
#include "replication/room.h"
#include "runtime/room.h"

/* How soon after storage has refused what a change needs, and then how often, it is tried whether it still does. */
#define MEMBERSHIP_PROBE_NS (60 * CLOCK_NS_PER_S)

/* What a node has by an older plan than the one that holds, and keeps until it is known what it has by that. */
struct membership_behind {
	uint32_t plan, world;
	uint32_t n;  /* 0: it has nothing, or has been told */
	bool joined; /* with that plan, and perhaps without a launcher which would ask */
	uint32_t ranks[WIRE_LOCAL_MAX];
};

struct membership {
	struct membership *next;
	struct control *control;
	char job[NAME_JOB_MAX];
	bool spread;
	struct assignment assignment;
	uint32_t latest; /* plan that a node knows of; the next one comes after it */
	uint32_t of;     /* the world of that; 0: not known */
	/* of the last plan, as it was when this began; number 0: there is none, or it has been taken up */
	struct plan_record record;
	struct asked_record recalled; /* beside it, for as long */
	bool adopted;                 /* the plan that holds is known from nodes alone: each of its ranks is claimed */
	bool untold;                  /* the plan that holds is not on record yet */
	bool unmade;                  /* then: its host could not be made yet */
	uint64_t make_ns;             /* when that is tried again */
	struct repeat why_unmade;
	bool twice;       /* a node follows another plan of the number of this one, and has yet to be told */
	uint64_t wait_ns; /* a node that is missing may come until then */
	uint64_t miss_ns; /* what it has in memory, also for others, may come until then */
	/* a node without ranks by the plan of an earlier incarnation may say until then that it is there */
	uint64_t word_ns;
	bool gone; /* a node was lost since the last plan, with what it had in memory */
	enum pause { PAUSE_NONE = 0, PAUSE_ASKED, PAUSE_SET } pause;
	uint32_t pause_epoch;         /* in which that is so */
	uint64_t after;               /* saves of later steps are those in whose fence every rank waits */
	bool occasion;                /* one of them is safe: what can wait for that may be done */
	char stuck[WIRE_TEXT_MAX];    /* why a change that could wait has not come; "": it may come with any save */
	uint64_t stuck_ns;            /* when storage is tried next: a save shows that it is over */
	struct coordinator_halt halt; /* see membership_keep_halt */
	bool deserted;                /* nobody has joined since the last node gave up what it had */
	bool starving;                /* too few are there, and that was said */
	bool quiescing;               /* towards the next plan */
	bool parted;                  /* see membership_parted */
	bool unfit;                   /* it is stuck since membership_parts */
	bool cramped;                 /* it is stuck since nobody has room for the ranks of nodes that are drained */
	bool rescuing; /* before that: what only memory has is written by who has it, also for nodes that are lost */
	bool again;    /* another node was lost meanwhile */
	uint64_t spill_ns;        /* not longer than until then it is found out what there is */
	char lost[WIRE_TEXT_MAX]; /* what could not be, and why */
	uint32_t epoch;           /* that was seen last */
	int rc;                   /* of quiescing: what cannot be written, and why */
	char text[WIRE_TEXT_MAX];
	bool *left;          /* by node: its ranks have finished */
	bool *launcher_lost; /* by node: its launcher is gone, and its daemon has what its ranks had in memory */
	bool *has_ranks;     /* by node: it has ranks, as far as it knows */
	bool *moves;   /* by node: its ranks are not those that it had by the plan before; until it has been told */
	bool *unquiet; /* by node: it has yet to say QUIESCED, or PAUSED */
	enum drain {
		DRAIN_UNKNOWN = 0, /* without a record, to this incarnation of the daemon: the node has yet to say it */
		DRAIN_NO,
		DRAIN_YES
	} *
		drained;           /* by node: somebody wants it to have no ranks, which is on record, if anything is */
	enum drain asked;          /* what is to be recorded of a node; DRAIN_UNKNOWN: nothing */
	uint32_t asked_node, asks; /* which, and how often something was */
	struct membership_behind *behind; /* by node */
	bool *departs; /* by node: its launcher was told to end. Either is reason enough for the next plan to do without it */
};

/* NULL: the world of that job does not change. */
struct membership *membership_find(const struct control *control, const char *job);
/* Of a job of which somebody has offered itself for the first time. None is made where that one is of a run that has
 * ended, by the record. -ENOMEM, and what epochs_last() says. */
int membership_new(struct control *control, const char *job, bool spread, const struct peer_capacity *first,
		   struct membership **out, struct err *err);
void membership_remove(struct control *control, const char *job);

/* Until when a node that is missing now may come. */
uint64_t membership_patience(const struct membership *m);
/* The same for those who had ranks by the plan of an earlier coordinator, and have yet to say so. */
uint64_t membership_return_patience(const struct membership *m);
/* Nobody of them comes: each has said so, or its daemon is not there. */
bool membership_nobody_returns(const struct membership *m);

/* The node is to end what it has under way, if it has anything by the plan that holds. That also goes for a node that has
 * lost its launcher: if it has rank 0, no other node decides what is written. */
void membership_quiesce(struct membership *m, uint32_t node);

/* What only memory has is written first; also a second time, when what has ended was without the node that is lost now. */
void membership_begin_spill(struct membership *m);

/* All ranks of the plan that holds are there, and have entered the epoch. */
bool membership_at_work(const struct membership *m);

/* control/membership/membership_recovery.c. What a node says of the plan that it follows. */
void membership_hear_of_plan(struct membership *m, uint32_t node, const struct peer_capacity *said);
/* No plan holds, and those whom it would wait for have come, or were waited for: one that is known of does, or the next
 * one is made. False: the membership is no more. */
bool membership_gathered(struct membership *m);
/* The node follows the plan that holds, by its number: the plan of an earlier incarnation, if the node has no rank in
 * this one. */
void membership_tell_apart(struct membership *m, uint32_t node);
/* The node follows a plan that is over. */
void membership_hear_behind(struct membership *m, uint32_t node, const struct peer_capacity *said);
/* Those that do are told the plan that holds, once it is known who has which rank of it. */
void membership_tell_behind(struct membership *m);

/* control/membership/membership_record.c. The node has no rank by the plan that holds, as far as is known. */
bool membership_leaves_out(const struct membership *m, uint32_t node);
/* The last plan of the job, by the record. */
int membership_recall(struct membership *m, struct err *err);
/* Somebody follows a plan of the job: the one on record holds. False: none was, or one holds already. */
bool membership_take_record(struct membership *m, uint32_t node, uint32_t plan);
/* Ranks of the plan on record of a node that has said what it follows, and how many processes it has. It has yet to hear
 * of them, or cannot have them any more. */
void membership_settle(struct membership *m, uint32_t node, const struct peer_capacity *said);

/* control/membership/membership_recovery.c. A node that joins has a place in the plan that holds, not in an older one. */
void membership_make_room(struct membership *m, uint32_t world, uint32_t by);

/* control/membership/membership_plan.c. By call or message; the job is set. */
void membership_order(const struct membership *m, uint32_t node, struct peer_order *order);
const char *membership_name_of(const struct membership *m, uint32_t node);
/* The launcher hears of it, and gives up. */
void membership_turn_away(const struct membership *m, uint32_t node, int rc, const char *text);
void membership_turn_all_away(const struct membership *m, int rc, const char *text);
/* known: the node follows the plan before this one, and knows its processes by the ranks of that. */
void membership_tell_plan(const struct membership *m, uint32_t node, bool known);
/* Somebody follows a plan of this number, or a later one, and all ranks are others': the plan holds under a number that
 * nobody knows. */
void membership_renumber(struct membership *m);
/* The host of the plan is made, where that has failed. False: the membership is no more. */
bool membership_make_host(struct membership *m);
/* Nothing leads to another plan any more. */
void membership_quiet(struct membership *m);
/* False: the membership is no more. */
bool membership_replan(struct membership *m);

/* control/membership/membership_drain.c. Its launcher has said so, or not any more. */
void membership_departs(struct membership *m, uint32_t node, bool departs);
/* If nothing is on record: what the node knows. A node that this incarnation of the daemon gave no order is believed, the
 * others are told. */
void membership_drain_said(struct membership *m, uint32_t node, bool drained);
/* Those on record beside the plan that holds. */
void membership_drains_recall(struct membership *m);

/* There is no store, and in the next plan, in which the world keeps its size, what is in memory fits nobody whose ranks
 * were parted. */
bool membership_parts(const struct membership *m);
/* A change that can wait is not made as long as that is so. True: it is. */
bool membership_unfit(struct membership *m);
/* It is planned all the same: that is lost. */
void membership_lose(struct membership *m);

/* The world changes at the next save, or does not after all. */
void membership_pause(struct membership *m);
void membership_unpause(struct membership *m);
void membership_paused(struct membership *m, uint32_t node, const struct peer_report *r);
/* It cannot, before a save shows that it can again; storage is tried each time that ns are over. */
void membership_stick(struct membership *m, uint64_t ns, const char *why);
void membership_unstick(struct membership *m);

/* control/membership/membership_ended.c. How the last job of that name has ended: after its last plan comes one in which nobody has
 * a rank; plan 0: none has ended. */
struct membership_end {
	uint32_t plan, epoch;
	bool unserved; /* copies stay: see struct coord_view, or nobody knows */
	bool finished; /* as in struct coordinator_end */
};
void membership_past_note(struct control *control, const char *job, struct membership_end end);
/* By the record this plan was the last of a run that has ended; 0: none is known. */
struct begun;
void membership_past_recall(struct control *control, const char *job, const struct begun *last);
struct membership_end membership_past(const struct control *control, const char *job);
void membership_past_free(struct control *control);
/* A node that follows this plan was part of a job that has ended meanwhile. First its processes go, which nobody waits for; when
 * that is done it offers again, has none at work, and may end. Where it had none, that is all. */
bool membership_is_over(const struct control *control, const char *job, uint32_t plan);
void membership_tell_over(struct control *control, uint32_t node, bool spread, const struct peer_report *report);

/* Goes on where it can. False: the membership is no more. */
bool membership_advance(struct membership *m);

#endif
