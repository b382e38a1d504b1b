/* Spawn: makes the worker of a user: a ckptd like any other, which runs as that user, with nothing of the warden's. What takes time or
 * can fail is done in the child. */
#ifndef CKPTD_SYSTEM_SPAWN_H
#define CKPTD_SYSTEM_SPAWN_H

#include "config/sources.h"
#include "confine.h"

#include <sys/types.h>

struct spawn {
	uid_t uid;
	const struct sources *sources;
	const struct confine *confine;
	int argc; /* those of the warden: a worker gets the same, and its own behind them */
	char **argv;
};

struct spawned {
	pid_t pid;
	int pidfd;
	int channel, ledger; /* post.h */
	int report;          /* POST_WHO, then the end of the stream when it is another program; or POST_REFUSED */
	int log;             /* what it writes to stderr */
};

/* Does not wait. -errno: nothing was made. */
int spawn_worker(const struct spawn *spawn, struct spawned *out, struct err *err);

#endif
