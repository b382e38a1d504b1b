/* Dismissed: processes that a plan has left without a rank. Each gets SIGTERM and some time to end; then it is killed,
 * with what it has started. One that stays may claim its old rank from a daemon that has been restarted and knows
 * neither, in place of who has that rank now. */
#ifndef CKPT_CLI_LAUNCH_DISMISSED_H
#define CKPT_CLI_LAUNCH_DISMISSED_H

#include "format/message/wire.h"
#include "process/launch_proc.h"

struct dismissed {
	struct {
		struct proc proc;
		uint64_t kill_at;
	} of[WIRE_LOCAL_MAX];
	uint32_t n;
};

/* Takes the process over; none is nothing. Until kill_at it may end by itself: 0: it may not. */
void dismissed_add(struct dismissed *d, struct proc *proc, uint64_t kill_at);
/* None of them has time any more. */
void dismissed_kill(struct dismissed *d);
void dismissed_tick(struct dismissed *d, uint64_t now);
/* When dismissed_tick() has something to do; UINT64_MAX: never. */
uint64_t dismissed_next(const struct dismissed *d);
/* A child that has ended: true: it was one of them, and is reaped. */
bool dismissed_reap(struct dismissed *d, pid_t pid);

#endif
