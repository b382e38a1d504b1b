/* The end of a daemon that was told to end: what is in flight comes to its end, and nothing new is begun. What takes too
 * long is left as a crash would leave it. Belongs to the loop's thread. */
#ifndef CKPTD_SHUTDOWN_H
#define CKPTD_SHUTDOWN_H

#include "daemon.h"

enum { SHUTDOWN_MS = 10000 };

struct shutdown {
	bool begun;
	uint64_t copied_ns, late_ns, deadline_ns;
};

/* Something of a job holds memory that a worker or the disk still uses. */
bool shutdown_at_work(struct daemon *daemon);
/* With the connections of clients still there. */
void shutdown_begin(struct shutdown *shutdown, struct daemon *daemon, uint64_t now);
/* Again and again, with these connections gone, and what daemon polls polled in between: -EAGAIN. 0: nothing is in flight
 * any more. -ETIMEDOUT: something still is, and its memory must stay until the process is gone. */
int shutdown_tick(struct shutdown *shutdown, struct daemon *daemon, uint64_t now);

#endif
