/* Halts of a job, at its coordinator: that it is to end, at once or later. What was asked is a part of the record of the
 * epoch, and nobody is told before it stands there.
 *
 *	asked ──► on record ──► all nodes are told, and whoever joins ──► the job has ended, or nobody of it is left: that is recorded, too
 *
 * A coordinator that begins reads it. It holds as soon as a node joins with processes that have been in an epoch of the
 * job; copies and arenas say nothing, they outlive those who were asked. If nobody does who is needed for the next epoch,
 * those who were asked are gone: the job begins anew, and nobody enters before that is on record. So it is where the
 * coordinator lives on, and none of those who wait to enter an epoch has been in one, although one was entered since it
 * was asked. Where there is no record the nodes say what they know: the highest number holds. On one node that the job is
 * to end now is known here for who comes later, the rest by the job itself. */
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
	bool holds;                 /* nobody enters an epoch before that is known, and recorded */
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
void halt_recall(struct coordinator_halt *halt, const struct asked_record *asked);
void halt_to_record(const struct coordinator_halt *halt, struct asked_record *asked);
/* It is to be written anew. */
bool halt_is_new(const struct coordinator_halt *halt);
/* Up to the one that was written. */
void halt_recorded(struct coordinator_host *host);
/* A node joins: before the coordinator hears of it, and when it has. */
void halt_attends(struct coordinator_host *host, uint32_t node, const struct peer_node_join *m);
void halt_attended(struct coordinator_host *host);
/* The ranks of a node wait to enter: before the coordinator hears of it, and when it has. */
void halt_gathers(struct coordinator_host *host, uint32_t epoch);
void halt_gathered(struct coordinator_host *host);
/* Nobody is left of those who were asked; or none of them is heard. */
void halt_forget(struct coordinator_host *host);
void halt_doubt(struct coordinator_host *host);
/* The job has ended: what was asked of it is not asked of the next one of its name. True: that is to be recorded. */
bool halt_end(struct coordinator_host *host);

#endif
