/* Halt: a job is asked to make a last checkpoint and to end: at once, after its next checkpoint, or in time for an
 * appointment. On several nodes the coordinator is asked, puts it on record (control/host/coordinator_halt.h) and tells all of
 * them, under a number. The first node for which it is time says so to the coordinator. Without a record each node says
 * to each coordinator what it knows, so that it outlives all but the last of them. No node does anything about it while
 * it has no coordinator, since it would not hear that it was taken back. */
#ifndef CKPTD_JOB_HALT_H
#define CKPTD_JOB_HALT_H

#include "base/err.h"
#include "format/message/peer_coord.h"
#include "format/message/wire.h"

struct job;

struct halt {
	struct peer_halt later;  /* what was asked; on one node what was asked for later, without a number */
	bool launcher_was_there; /* the launcher that is there, when an epoch was entered, or given */
	bool apart;              /* nobody could say whether that still holds */
	bool due;                /* the time has come, and the coordinator has yet to say that the job is to end */
};

/* Of a job that is spread this only says what would happen: it is done when its coordinator says so. The answer's text
 * says what will happen. -EINVAL: the time cannot be met, or there is nothing to take back. Of a job that is spread other
 * nodes may know what was forgotten here: taking it back is for them, then. */
int halt_request(struct job *job, const struct wire_command *command, struct wire_answer *answer, struct err *err);
/* From the coordinator. */
void halt_hear(struct job *job, const struct peer_halt *halt);
/* At once, on all nodes, without an operator: as soon as the coordinator says so. Does nothing if it has been asked to. */
void halt_now(struct job *job);
/* Every tick. */
void halt_tick(struct job *job);
/* All ranks here have entered an epoch. */
void halt_entered(struct job *job);
/* A process that is there has been in an epoch: an earlier incarnation of the coordinator may have asked it. */
bool halt_may_be_known(const struct job *job);
/* A coordinator has taken this node for one of the job's: it may not have heard that the time has come. */
void halt_joined(struct job *job);
/* A checkpoint has become durable. */
void halt_durable(struct job *job);
/* The coordinator cannot be reached any more. */
void halt_apart(struct job *job);
/* How long the job is expected to need from the request until its end. That is a step and a save, each at twice its 99th
 * percentile, and a few seconds. */
uint64_t halt_need(const struct job *job);

#endif
