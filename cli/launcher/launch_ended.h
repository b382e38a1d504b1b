/* Ended: processes of ranks that the launcher finds ended at the same time. All of them are reaped, and only then judged,
 * the likeliest cause first. A loss is told, counted and given up in the name of the rank that comes first, and the order
 * in which the kernel hands them out says nothing. One that is killed has ended before those that the daemon tells of it:
 * whoever finds these finds it, too. */
#ifndef CKPT_CLI_LAUNCH_ENDED_H
#define CKPT_CLI_LAUNCH_ENDED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct launch_rank;

struct ended {
	struct launch_rank *rank;
	pid_t pid;
	uint64_t started_ns;
	int status;  /* as of waitpid */
	bool waited; /* in a collective, by its flight record: for another rank */
};

/* Puts first those that a signal has ended, then those that exited by themselves, last those that waited for another
 * rank. */
void ended_sort(struct ended *ended, uint32_t n);

#endif
