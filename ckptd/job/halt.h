/* Halt: a job is asked to make a last checkpoint and to end: at once, after its next checkpoint, or in time for an appointment. All nodes of
 * the job are asked, and the first for which it is time says so to all. On several nodes what is asked for later is numbered by the coordinator. Each node says
 * to each coordinator what it knows, so that it outlives all but the last of them; and does nothing about it while it has none, since it would not hear that it was
 * taken back. */
#ifndef CKPTD_JOB_HALT_H
#define CKPTD_JOB_HALT_H

#include "base/err.h"
#include "format/message/peer_coord.h"
#include "format/message/wire.h"

struct job;

struct halt {
	struct peer_halt later; /* what was asked for later; on one node without a number */
	bool apart;             /* nobody could say whether that still holds */
	bool again;             /* it is to be told as soon as it has taken this node for one of the job's */
	bool begun; /* an operator has it end: all nodes are to be told, also by a coordinator that has not heard of it */
};

/* What is asked for later of a job that is spread is set when its coordinator says so. The answer's text says what will happen. -EINVAL: the time cannot be met, or there is nothing to take back. Of a job
 * that is spread other nodes may know what was forgotten here: taking it back is for them, then. */
int halt_request(struct job *job, const struct wire_command *command, struct wire_answer *answer, struct err *err);
/* From the coordinator. */
void halt_hear(struct job *job, const struct peer_halt *later);
/* At once, on all nodes, without an operator. Does nothing if it has been asked to. */
void halt_now(struct job *job);
/* Every tick. */
void halt_tick(struct job *job);
/* The coordinator is back, which may have lost what it was told last, or know nothing: the others are asked again to end, but not before this
 * node has a participant. What it has may be left of an earlier life of the job, and the others of the next one. */
void halt_together(struct job *job);
/* It has one. */
void halt_joined(struct job *job);
/* A checkpoint has become durable. */
void halt_durable(struct job *job);
/* The coordinator cannot be reached any more. */
void halt_apart(struct job *job);
/* How long the job is expected to need from being asked until it has ended: a step and a save, each twice as long as 99% of them were,
 * and a few seconds. */
uint64_t halt_need(const struct job *job);

#endif
