/* How often processes are started again, and how soon.
 *
 * A budget bounds the losses of the whole run, or of a sliding window. One loss may end many processes: some exit when a
 * new epoch begins, or when they do not reach the lost rank any more. A loss covers each process that was there when it
 * began and that ends before its rank has entered a later epoch. A process that was started since is not covered: its end
 * is another loss. So a job that crashes again and again uses up its budget.
 *
 * A streak counts a process's failures in a row before it was at work. Those are tried again more and more slowly, and
 * given up early, since what fails before it has begun will fail again. */
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

/* Takes one; false when none is left. */
bool budget_take(struct budget *budget, uint64_t now);
/* The last that was taken was not needed. */
void budget_give_back(struct budget *budget);

struct loss {
	uint64_t since_ns; /* the end of its first process here, or when it was heard of; 0: there was none yet */
	uint32_t epoch;    /* the newest that any rank here had entered by then */
	bool counted;      /* it has taken one of the budget */
	bool elsewhere;    /* it was on another node, and is counted there */
	bool owed;         /* there was none left for it: nothing is started for it unless it was elsewhere */
};

/* A process has ended, which was started then, and whose rank has last entered this epoch: it follows from the loss. */
bool loss_covers(const struct loss *loss, uint64_t started_ns, uint32_t entered);
/* A process has ended of which that is not so. */
void loss_begin(struct loss *loss, uint32_t epoch, uint64_t now);
/* A rank of another node was lost when those here were in this epoch. True: what ended here before this was known was
 * counted, and should not be. */
bool loss_is_elsewhere(struct loss *loss, uint32_t epoch, uint64_t now);

struct streak {
	unsigned count;
	uint64_t at[STREAK_MAX]; /* the last failures: a ring */
};

/* A process has ended before it was at work. The pause before the next try in *pause_ns; false: too many in too short a
 * time. */
bool streak_failed(struct streak *streak, uint64_t now, uint64_t *pause_ns);
/* It was at work. */
void streak_ended(struct streak *streak);

#endif
