/* How often processes are started again, and how soon.
 *
 * A budget bounds the restarts of the whole run, or of a sliding window. A streak counts a process's failures in a row before it
 * was at work: those are tried again more and more slowly, and given up early, since what fails before it has begun will fail
 * again. */
#ifndef CKPT_CLI_LAUNCH_BUDGET_H
#define CKPT_CLI_LAUNCH_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

enum { BUDGET_MAX = 1000, STREAK_MAX = 3 };
#define STREAK_NS 10000000000ull /* STREAK_MAX failures within this are too many */

struct budget {
	unsigned max;            /* at most BUDGET_MAX */
	uint64_t window_ns;      /* 0: the whole run */
	unsigned spent;          /* in all */
	uint64_t at[BUDGET_MAX]; /* when the last `max` were spent: a ring */
};

/* Takes one restart; false when none is left. */
bool budget_take(struct budget *budget, uint64_t now);

struct streak {
	unsigned count;
	uint64_t at[STREAK_MAX]; /* the last failures: a ring */
};

/* A process has ended before it was at work. The pause before the next try in *pause_ns; false: too many in too short a time. */
bool streak_failed(struct streak *streak, uint64_t now, uint64_t *pause_ns);
/* It was at work. */
void streak_ended(struct streak *streak);

#endif
