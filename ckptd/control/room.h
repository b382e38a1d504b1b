/* Room control: the host of each coordinator: which node that is, membership, the record of epochs, and the
 * directories of checkpoints.
 * May know: runtime, machine, coordinator, cluster, registry, catalog, checkpoint, replication, participant, job.
 * Invariants: what others act on (epoch, plan, drain, halt) is on record before anybody is told of it; no epoch is given twice. */
#ifndef CKPTD_CONTROL_ROOM_H
#define CKPTD_CONTROL_ROOM_H

#include "control/control.h"
#include "control/election/election.h"
#include "control/election/hand_over.h"
#include "control/election/members.h"
#include "control/election/node_record.h"
#include "control/election/reach.h"
#include "control/host/coordinator_halt.h"
#include "control/host/coordinator_host.h"
#include "control/host/outbox.h"
#include "control/lemon/set_aside.h"
#include "control/membership/membership.h"
#include "control/record/directory_lock.h"

#endif
