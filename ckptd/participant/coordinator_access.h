/* What a node needs to know of coordinators: where that of a job is, and those in its own daemon. They stand above:
 * control/election/election_access.c and control/host/coordinator_host.c have these functions. */
#ifndef CKPTD_PARTICIPANT_COORDINATOR_ACCESS_H
#define CKPTD_PARTICIPANT_COORDINATOR_ACCESS_H

#include "base/err.h"
#include "coordinator/room.h"

struct control;
struct peer_report;

/* Of a job that is spread over nodes: who coordinates it, in the roster; NO_NODE: nobody does, as far as is known here. */
uint32_t coordinator_of(const struct control *control, const char *job);
/* Since when: it only grows, and stands in every message between a node and a coordinator. 0: without a registry. */
uint64_t coordinator_term(const struct control *control, const char *job);
/* It is here, or the session with it stands. */
bool coordinator_in_reach(const struct control *control, const char *job);
/* "node NAME, which coordinates it", or that nobody does. */
const char *coordinator_text(const struct control *control, const char *job, char *text, size_t size);
/* This daemon coordinates it. */
bool host_here(const struct control *control, const char *job);
/* With the reason when it cannot be made. -EAGAIN: not yet. plan: that its node follows, 0: none. A node that follows an
 * older plan than the one that holds changes nothing, and is refused nothing. It is told when its launcher offers
 * something. */
int host_open(struct control *control, const char *job, uint32_t world, bool spread, uint32_t plan, struct err *err);
/* Something was reported by a node of the roster, or by ourselves (node: peers->self). The first NODE_JOIN makes the host; what cannot be
 * made is answered by REJECT. */
void host_report(struct control *control, uint32_t node, bool spread, const struct peer_report *report);
/* A rank or an arena knows of an epoch, in a job of this node alone (coordinator/coordinator.h). */
void host_knows(struct control *control, const char *job, enum coord_witness witness, uint32_t epoch);
/* Directories of checkpoints are being made, written or cleared away. */
bool host_busy(const struct control *control, const char *job);

#endif
