/* A process that the launcher has started: leader of a process group of its own, so that terminal signals reach only the launcher
 * and a signal of the launcher reaches all that the process has started. It dies with the launcher (PR_SET_PDEATHSIG).
 *
 * Ended processes are looked at before they are reaped: as long as the leader is a zombie its process group cannot be anybody
 * else's, and what is left of it is killed. The launcher is a subreaper: processes that have left their group come to it, and
 * proc_kill_all ends them. One thread. */
#ifndef CKPT_CLI_LAUNCH_PROC_H
#define CKPT_CLI_LAUNCH_PROC_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

struct proc {
	pid_t pid; /* 0: none */
	int pidfd; /* -1: none (or a kernel without) */
	uint64_t started_ns;
};

struct proc_spec {
	char *const *argv; /* argv[0] is looked up in PATH when it has no slash */
	char *const *env;
	int in;           /* becomes stdin; 0: it is /dev/null */
	int out, err;     /* become stdout and stderr; -1: the launcher's */
	int death_signal; /* when the launcher dies */
	/* RLIMIT_NOFILE where it is not to be that of this process, or NULL. */
	const struct rlimit *descriptors;
};

/* -errno of what failed, the exec included (-ENOENT: no such command). */
int proc_start(struct proc *proc, const struct proc_spec *spec, struct err *err);
/* Whether a start that failed so may work a little later: the machine had too little of something. */
bool proc_may_start_later(int rc);
/* To the whole group; 0 to a proc without a process is nothing. */
void proc_signal(const struct proc *proc, int sig);

/* Whether the process itself is stopped (SIGSTOP, a debugger). */
bool proc_stopped(const struct proc *proc);

/* The next child that has ended and is not reaped yet; 0: none. */
pid_t proc_next_ended(void);
/* Kills what is left of its group, reaps it; the wait status. proc may be NULL for a child that is nobody's. */
int proc_reap(struct proc *proc, pid_t pid);
/* Kills and reaps all children, again until none is left or the deadline. True: none is left. */
bool proc_kill_all(uint64_t deadline);

/* Children that lose their parent come to this process. */
void proc_become_subreaper(void);

/* "exited with status 3", "was killed by signal 9 (Killed)". Returns dst. */
char *proc_status_text(char *dst, size_t size, int status);

#endif
