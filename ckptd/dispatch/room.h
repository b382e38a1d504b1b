/* Room dispatch: gives each message of another node, and each order of a coordinator, to the room that carries
 * it out.
 * May know: runtime, machine, cluster, replication, participant, save, restore, job, control, clients.
 * Invariants: keeps no state of jobs: one switch per kind of message, and nothing is decided here. */
#ifndef CKPTD_DISPATCH_ROOM_H
#define CKPTD_DISPATCH_ROOM_H

#include "dispatch/dispatch.h"
#include "dispatch/peer_dispatch.h"

#endif
