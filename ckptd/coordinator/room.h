/* Room coordinator: decides for all nodes of a job: its epoch, what is restored, how far each save has come,
 * which rank is where.
 * May know: no other room.
 * Invariants: a function of reports and the time: no disk, no net. The same reports at the same times give the
 * same orders. */
#ifndef CKPTD_COORDINATOR_ROOM_H
#define CKPTD_COORDINATOR_ROOM_H

#include "coordinator/assignment.h"
#include "coordinator/coordinator.h"
#include "coordinator/watch/straggling.h"

#endif
