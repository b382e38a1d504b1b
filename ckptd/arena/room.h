/* Room arena: one rank's shared memory as the daemon holds it, and the digests of its slots.
 * May know: runtime.
 * Invariants: what a process writes there is never trusted: the daemon's own view of each slot decides. */
#ifndef CKPTD_ARENA_ROOM_H
#define CKPTD_ARENA_ROOM_H

#include "arena/memory.h"
#include "arena/numa_node.h"
#include "arena/slot_check.h"

#endif
