/* The whole daemon: a struct of each room that keeps something for all jobs. Passed down, never global.
 * Only main.c and what stands beside it know it: a room is handed its own struct, which points to those that it uses. */
#ifndef CKPTD_DAEMON_H
#define CKPTD_DAEMON_H

#include "checkpoint/room.h"
#include "clients/room.h"
#include "control/room.h"
#include "dispatch/room.h"
#include "job/room.h"
#include "observe/room.h"
#include "replication/room.h"
#include "runtime/room.h"

struct daemon {
	struct runtime runtime;
	struct storage storage;
	struct peers peers;
	struct jobs jobs;
	struct control control;
	struct observe observe;
	struct operators operators;
	struct dispatch dispatch;
};

/* Nothing is open yet; each room has what it needs of the others. */
void daemon_init(struct daemon *daemon);

#endif
