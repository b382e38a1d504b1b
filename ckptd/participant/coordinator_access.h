/* What a node needs of the coordinators in its own daemon. They stand above (control/coordinator_host.c, which has these functions). */
#ifndef CKPTD_PARTICIPANT_COORDINATOR_ACCESS_H
#define CKPTD_PARTICIPANT_COORDINATOR_ACCESS_H

#include "base/err.h"
#include "coordinator/room.h"

struct daemon;
struct peer_report;

/* True when this daemon coordinates the jobs that are spread over nodes. */
bool host_here(const struct daemon *daemon);
/* With the reason when it cannot be made. -EAGAIN: not yet. */
int host_open(struct daemon *daemon, const char *job, uint32_t world, bool spread, struct err *err);
/* Something was reported by a node of the roster, or by ourselves (node: daemon->self). The first NODE_JOIN makes the host; what cannot be
 * made is answered by REJECT. */
void host_report(struct daemon *daemon, uint32_t node, bool spread, const struct peer_report *report);
/* A rank or an arena knows of an epoch, in a job of this node alone (coordinator/coordinator.h). */
void host_knows(struct daemon *daemon, const char *job, enum coord_witness witness, uint32_t epoch);
/* Directories of checkpoints are being made, written or cleared away. */
bool host_busy(const struct daemon *daemon, const char *job);

#endif
