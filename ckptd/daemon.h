/* The whole daemon: a struct of each room that keeps something for all jobs. Passed down, never global. */
#ifndef CKPTD_DAEMON_H
#define CKPTD_DAEMON_H

#include "checkpoint/room.h"
#include "clients/room.h"
#include "control/room.h"
#include "dispatch/room.h"
#include "job/room.h"
#include "replication/room.h"
#include "runtime/room.h"

struct faults;
struct http;
struct scrub;

struct daemon {
	struct runtime runtime;
	struct storage storage;
	struct peers peers;
	struct jobs jobs;
	struct control control;
	struct operators operators;
	struct dispatch dispatch;
	struct scrub *scrub;   /* NULL: no store */
	struct http *http;     /* NULL: off */
	struct faults *faults; /* on purpose */
};

#endif
