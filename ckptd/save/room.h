/* Room save: the snapshots of one job: which are written, which are copied, which slot is free again, how long
 * each took, and what training says of them (health marks).
 * May know: runtime, catalog, arena, checkpoint, replication, participant.
 * Invariants: a level only rises, and only when it is true for every rank; a slot with the only copy of the
 * newest snapshot is not reused. */
#ifndef CKPTD_SAVE_ROOM_H
#define CKPTD_SAVE_ROOM_H

#include "save/copies.h"
#include "save/health_marks.h"
#include "save/level_recovery.h"
#include "save/save_policy.h"
#include "save/save_stats.h"
#include "save/saves.h"

#endif
