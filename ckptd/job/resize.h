/* Resize: a job goes on with another world; this node's part of it.
 *
 * The launcher of a job whose world may change says how many processes it has, and which ranks it keeps alive (OFFER).
 * The offer goes to the daemon that coordinates the job (control/membership/membership.h). From there comes which ranks this node
 * has (PLAN), at first and whenever that changes:
 *
 *   WAITING (no ranks: a spare, or nothing is planned yet) ── PLAN ──► AT WORK
 *   AT WORK ── QUIESCE ──► all local ranks are here (again, if the daemon was restarted);
 *              the newest snapshot in memory goes to storage ── nothing is under way ──► QUIESCED is said
 *           ── PLAN, when nothing is under way ──► AT WORK or WAITING
 *
 * If a node was lost, the coordinator has that snapshot written before it says QUIESCE (job/spill.h). After a PLAN:
 *  - the launcher is told which process is which rank;
 *  - the arenas of the old world are let go, and the job takes a new participant with the new world;
 *  - each process learns its new place when it registers or joins (MOVED).
 * Sound processes go on, and no process is started without need. If the plan changes nothing here, all stays as it is.
 *
 * A node has no participant any more if it was out of reach and comes back with a plan that is over. The same holds if
 * its plan was not the last one of an earlier incarnation of the coordinator. Nobody decides then about what it has
 * under way, so it gives that up. */
#ifndef CKPTD_JOB_RESIZE_H
#define CKPTD_JOB_RESIZE_H

#include "base/err.h"
#include "base/repeat.h"
#include "format/message/wire.h"

struct jobs;
struct registration;
struct job;
struct rank;

struct resize {
	bool offered;            /* its launcher lets the world change; else all else is unused */
	struct wire_offer offer; /* as it stands */
	uint32_t seq;            /* of it: what cannot be done is its answer */
	uint32_t plan;           /* that is followed; 0: none yet */
	uint32_t world;          /* of that plan; 0: not known */
	bool drained; /* this node is to have no ranks: known here, too, for a later incarnation of the coordinator's daemon */
	bool unfit; /* something is wrong with this node, which was said */
	/* the coordinator was out of reach, or has vacated all participants, and has not yet said that the job's
	 * participant here counts */
	bool apart;
	struct wire_plan next;    /* number 0: none */
	uint64_t quiesce_ns;      /* since when; 0: not */
	uint32_t quiesce_next;    /* a later plan in which it is to quiesce, once it follows it; 0: none */
	struct step_id flushed;   /* what was newest in memory, and is sent to storage; epoch 0: nothing */
	int gone[WIRE_LOCAL_MAX]; /* processes that lost their ranks here, the last ones: a ring */
	uint32_t ngone;
	uint64_t participant_ns; /* not before: the job takes its participant in the new world; 0: it has one */
	struct repeat placeless; /* why it has none */
};

/* From the launcher. -EINVAL, -EBUSY: not what a launcher of this job can offer. -EAGAIN: not yet; what is in its way
 * comes to an end. */
int resize_offer(struct job *job, uint32_t seq, const struct wire_offer *offer, struct err *err);
/* It is gone, with its processes. */
void resize_abandoned(struct job *job);
/* Says again what the launcher offers, to a coordinator that may not know. */
void resize_say(const struct job *job);
/* The coordinator is there again, or it has given an order that only a participant gets. */
void resize_apart(struct job *job, bool apart);
/* Another plan holds than the one by which the job took its participant here. */
void resize_invalidate_plan(struct job *job, uint32_t plan);
/* It is about to follow another plan, or ends what it has under way for one. */
bool resize_changes(const struct resize *resize);
/* All ranks have entered an epoch: nobody waits any more for what was to be written before another world, since the coordinator
 * that had asked for it was lost. */
void resize_entered(struct resize *resize);
/* From the coordinator. */
void resize_quiesce(struct job *job, uint32_t plan);
void resize_plan(struct job *job, const struct wire_plan *plan);
/* The node is drained, or not any more. */
void resize_drain(struct job *job, bool drained);
void resize_refused(struct job *job, int rc, const char *text);
void resize_end(struct job *job);
/* The launcher has nothing more to do. */
void resize_dismiss(const struct job *job);
/* Goes on when it can; every tick. */
void resize_tick(struct job *job);

/* Answers a request of a process that does not know its place yet. False: it does, or so its table says (NULL: it brings
 * none). */
bool resize_tell(struct rank *rank, uint32_t seq, const struct registration *table);
/* The process had a rank here, and a plan took it away. It is on its way out, and must not pass for the process that has
 * that rank next. */
bool resize_let_go(const struct job *job, int pid);
/* The launcher has started it, whoever had that number before. */
void resize_started(struct job *job, int pid);
/* A process says HELLO that the launcher has named as another rank: the place that it has, in place of the one that it
 * claims. */
void resize_place(struct jobs *jobs, struct wire_hello *hello, int pid);

#endif
