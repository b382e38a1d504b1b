/* Room faults: faults on purpose in a running job, as `ckpt fault` asks for them, and what becomes of each.
 * May know: runtime, catalog, arena, checkpoint, replication, save, job.
 * Invariants: nothing is caused unless the configuration says faults = yes; each fault ends as fired or not fired,
 * within its deadline, and both its begin and its end are told. */
#ifndef CKPTD_FAULTS_ROOM_H
#define CKPTD_FAULTS_ROOM_H

#include "faults/fault_log.h"
#include "faults/faults.h"

#endif
