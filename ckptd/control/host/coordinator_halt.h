/* Halts of a job, at its coordinator: that it is to end, at once or later. What was asked is a part of the record of the
 * epoch, and nobody is told before it stands there.
 *
 *	asked ──► on record ──► all nodes are told, and whoever joins ──► the job has ended, or nobody of it is left: that is recorded, too
 *
 * Whether anybody is left of those who were asked is decided in one place, whoever coordinates: when all ranks of the
 * world wait to enter an epoch. If one of the processes on their nodes has been in an epoch, what was asked holds. If none
 * has, although an epoch was entered since it was asked, the job begins anew, and nobody enters before that is on record.
 * What nodes say before that proves nothing against it: processes may be on their way back to their daemons. Copies and
 * arenas prove nothing for it: they outlive those who were asked.
 *
 * A coordinator that begins reads the record, and tells nobody before it is sure: as soon as a node joins with a process
 * that has been in an epoch, or at that place. Where there is no record the nodes say what they know: the highest number
 * holds. On one node that the job is to end now is known here for who comes later, the rest by the job itself. */
#ifndef CKPTD_CONTROL_COORDINATOR_HALT_H
#define CKPTD_CONTROL_COORDINATOR_HALT_H

#include "format/files/asked_record.h"
#include "format/message/peer_coord.h"

struct control;
struct coordinator_host;

struct coordinator_halt {
	struct peer_halt is;
	struct peer_halt asked;     /* takes its place when it is on record; nothing waits if its number is no higher */
	uint64_t written, recorded; /* numbers: on its way; on record */
	uint32_t since;             /* the first epoch that those who were asked are in; 0: they have been in one */
	bool unsure;                /* it is not known yet whether anybody is left of those who were asked */
	bool holds;                 /* nobody is, and nobody enters an epoch before that is on record */
};

/* Of COMMAND_HALT to COMMAND_GO_ON. -EINPROGRESS: as soon as it is on record. -EAGAIN: nobody coordinates the job here;
 * -EINVAL: it is to end already. */
int host_halt(struct control *control, const char *job, const struct wire_command *command, struct err *err);
/* Something asked is not on record yet. */
bool host_halt_waits(const struct control *control, const char *job);
/* It was asked to end at once, or will have been. */
bool host_ends(const struct control *control, const char *job);

/* ---- for coordinator_*.c ---- */

/* What is on record, when the host begins. */
void halt_recall(struct coordinator_host *host, const struct asked_record *asked);
void halt_to_record(const struct coordinator_halt *halt, struct asked_record *asked);
/* It is to be written anew. */
bool halt_is_new(const struct coordinator_halt *halt);
/* Up to the one that was written. */
void halt_recorded(struct coordinator_host *host);
/* A node joins. */
void halt_attends(struct coordinator_host *host, uint32_t node, const struct peer_node_join *m);
/* All ranks wait to enter an epoch; goes_on: somebody on their nodes has been in one. False: they do not before it is on
 * record that nothing is asked of them. */
bool halt_lets_enter(struct coordinator_host *host, bool goes_on);
/* Nobody is left of those who were asked; or none of them is there, or heard. */
void halt_forget(struct coordinator_host *host);
void halt_doubt(struct coordinator_host *host);
/* The job has ended: what was asked of it is not asked of the next one of its name. True: that is to be recorded. */
bool halt_end(struct coordinator_host *host);

#endif
