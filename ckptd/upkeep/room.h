/* Room upkeep: removes checkpoints that retention does not keep and what crashes left, and reads old checkpoints
 * again.
 * May know: runtime, catalog, checkpoint, save, restore, job, control.
 * Invariants: renamed away and fsynced before anything is deleted; what is in use stays; commits go first. */
#ifndef CKPTD_UPKEEP_ROOM_H
#define CKPTD_UPKEEP_ROOM_H

#include "upkeep/gc.h"
#include "upkeep/scrub.h"

#endif
