/* Room participant: what this node reports to the coordinators of its jobs, and where their orders arrive.
 * May know: coordinator, cluster, replication.
 * Invariants: a coordinator that cannot be reached is told nothing; when it is back, this node joins anew and
 * says what still holds. */
#ifndef CKPTD_PARTICIPANT_ROOM_H
#define CKPTD_PARTICIPANT_ROOM_H

#include "participant/coordinator_access.h"
#include "participant/orders.h"
#include "participant/participant.h"

#endif
