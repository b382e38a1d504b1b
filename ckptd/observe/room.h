/* Room observe: metrics, health, status and the status page.
 * May know: runtime, machine, faults, coordinator, cluster, checkpoint, replication, save, restore, job, control.
 * Invariants: reads and changes nothing; asks nothing of the disk; what a stranger can make it do is bounded. */
#ifndef CKPTD_OBSERVE_ROOM_H
#define CKPTD_OBSERVE_ROOM_H

#include "observe/http.h"
#include "observe/observe.h"
#include "observe/status.h"

#endif
