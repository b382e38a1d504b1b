/* Process: what the kernel tells of a process that is not ours. */
#ifndef CKPTD_RUNTIME_PROCESS_H
#define CKPTD_RUNTIME_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether the process is gone or on its way: killed, and not yet torn down. Tearing down memory takes the kernel 0.1 s per GiB in
 * pages of 4 KiB, and only then does a pidfd tell. A process that cannot be looked at, also one
 * of another PID namespace, is taken for a living one. */
bool process_is_dying(pid_t pid);

/* Whether all of it is stopped (SIGSTOP, SIGTSTP). */
bool process_is_stopped(pid_t pid);

/* "process 4711"; one of another PID namespace (negative, channel_peer) has no number here. */
struct process_text {
	char text[48];
};
struct process_text process_text(pid_t pid);

#endif
