/* Room machine: what this machine tells of itself: errors of its memory, its store, its GPUs; and what that means.
 * May know: runtime.
 * Invariants: only threads of this room wait for the machine. A part that does not answer is reported. Nothing waits for
 * it, also when the daemon ends. */
#ifndef CKPTD_MACHINE_ROOM_H
#define CKPTD_MACHINE_ROOM_H

#include "machine/checkup.h"
#include "machine/machine.h"

#endif
