/* User: one user of a system service, and their worker.
 *
 *   RESTING ─ somebody connects, or arenas are held ─► STARTING ─ READY ─► SERVED ─ nothing to do for user-linger ─► ENDING
 *      ▲                                                   │                 │                                          │
 *      └──────────────────── its process is gone; the next one after a pause that grows with each failure ◄─────────────┘
 *
 * Connections that come while no worker is ready wait, PENDING_MAX of them for at most PENDING_MS. */
#ifndef CKPTD_SYSTEM_USER_H
#define CKPTD_SYSTEM_USER_H

#include "base/list.h"
#include "identity.h"
#include "lines.h"
#include "spawn.h"

#include <stdbool.h>

enum user_state { USER_RESTING = 0, USER_STARTING, USER_SERVED, USER_ENDING };

enum { PENDING_MAX = 128, HELD_MAX = 512, KEEPS_PER_S = 20, HELD_NAME_BYTES = 96 };

struct held {
	struct list link;
	char name[HELD_NAME_BYTES]; /* as the worker calls it: JOB/RANK */
	int fd;
};

struct pending {
	int fd;
	uint64_t since;
};

struct user {
	struct list link;
	struct users *users;
	uid_t uid;
	char name[IDENTITY_NAME_MAX]; /* the number until the name is known */
	enum user_state state;
	bool known;   /* the name and the limits below are true */
	bool refused; /* they may not use the service */
	struct spawned worker;
	struct watch *pid_watch, *channel_watch, *ledger_watch, *report_watch, *log_watch;
	struct pending pending[PENDING_MAX];
	unsigned npending;
	struct list held;
	unsigned nheld;
	uint64_t keeps_paid_ns; /* ledger_pace */
	unsigned given;         /* of them, to the worker that starts */
	bool begun;             /* it has them all */
	uint64_t passed;        /* connections, to this worker */
	uint64_t ready_ns, heard_ns;
	unsigned failures, starts;
	uint64_t next_ns; /* no worker is made before */
	uint64_t leased;  /* bytes that this user may hold, and that others may not */
	uint64_t memory_limit, write_bandwidth, read_bandwidth; /* the user's own; 0: none */
	struct lines lines;
	uint64_t notes_ns; /* users_note */
	char why[256];     /* the last that went wrong */
};

#endif
