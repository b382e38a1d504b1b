/* Room machine: what this machine tells of itself: errors of its memory, its store, its GPUs; and what that means.
 * May know: runtime.
 * Invariants: nothing here waits for the machine but threads of its own. Who does not answer is told, and nobody
 * waits for him, nor when the daemon ends. */
#ifndef CKPTD_MACHINE_ROOM_H
#define CKPTD_MACHINE_ROOM_H

#include "machine/checkup.h"
#include "machine/machine.h"

#endif
