/* Room system: one service for all users of a machine: a process of root that hands connections to workers of
 * each user.
 * May know: runtime, service, arena.
 * Invariants: root's process reads nothing that a user sends, and what one user does is counted against that
 * user alone. */
#ifndef CKPTD_SYSTEM_ROOM_H
#define CKPTD_SYSTEM_ROOM_H

#include "system/warden.h"

#endif
