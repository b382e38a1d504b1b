/* Room restore: this node's part of a restore, what former ranks have left, and the log of recoveries.
 * May know: runtime, service, coordinator, cluster, catalog, arena, checkpoint, replication, participant, save.
 * Invariants: each source is verified by digest before it is used, and why a source was passed over is kept. */
#ifndef CKPTD_RESTORE_ROOM_H
#define CKPTD_RESTORE_ROOM_H

#include "restore/former.h"
#include "restore/recovery_json.h"
#include "restore/recovery_log.h"
#include "restore/recut.h"
#include "restore/restore.h"

#endif
