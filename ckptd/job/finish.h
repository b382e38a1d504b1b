/* Finish: all ranks of a job on this node have said goodbye and ended, and those of other nodes may still be at work. The loss of one of
 * these begins an epoch in which all are needed again, so that the launcher stays (cli/launcher/launch_stay.c) until it is let go:
 *
 *   NONE ── all have ended ──► SAID (NODE_JOIN with `finished`; again each second) ── STAYS ──► HEARD
 *   SAID, HEARD ── DISMISSED: all nodes have finished; END: the job is over ──► OVER: the launcher is let go
 *               ── NEEDED: somebody waits to enter; another epoch ──► NONE: they are started again
 *   HEARD ── the coordinator is out of reach ──► SAID
 *
 * If the coordinator is not heard for join-timeout, the launcher is let go, too: nobody could say any more when that is
 * due. So is the launcher of ranks that are needed twice in one epoch: what was started had finished without taking part.
 * A job whose world may change goes on without them (job/resize.h), and nobody stays. */
#ifndef CKPTD_JOB_FINISH_H
#define CKPTD_JOB_FINISH_H

#include "format/message/peer_coord.h"

struct job;

enum finish_stand { FINISH_NONE = 0, FINISH_SAID, FINISH_HEARD, FINISH_OVER };

struct finish {
	enum finish_stand stand;
	uint32_t epoch;    /* in which */
	uint32_t recalled; /* the last in which its ranks were needed again */
	uint64_t since_ns; /* that they have ended, or that nobody has heard of it; 0: they have not */
	uint64_t say_ns;   /* not before */
	bool apart;        /* the coordinator was out of reach since it was heard */
};

/* Every tick. */
void finish_tick(struct job *job);
/* True when the node joins as one that has finished. */
bool finish_stands(const struct job *job);
/* A launcher has come: it has all of join-timeout to start ranks, or to be let go. */
void finish_greet(struct job *job);
/* The coordinator is out of reach. */
void finish_apart(struct job *job);
/* From the coordinator. */
void finish_hear(struct job *job, enum peer_finish_state is);

#endif
