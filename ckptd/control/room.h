/* Room control: the host of each coordinator: which node that is, membership, the record of epochs, and the
 * directories of checkpoints.
 * May know: runtime, machine, coordinator, cluster, registry, catalog, checkpoint, replication, participant, job.
 * Invariants: what others act on (epoch, plan, drain, halt) is on record before anybody is told of it; no epoch is given twice. */
#ifndef CKPTD_CONTROL_ROOM_H
#define CKPTD_CONTROL_ROOM_H

#include "control/control.h"
#include "control/coordinator_halt.h"
#include "control/coordinator_host.h"
#include "control/directory_lock.h"
#include "control/election.h"
#include "control/hand_over.h"
#include "control/members.h"
#include "control/membership.h"
#include "control/node_record.h"
#include "control/reach.h"
#include "control/set_aside.h"

#endif
