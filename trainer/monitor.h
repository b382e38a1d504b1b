/*
 * Watches the loss, and knows which checkpoints may be gone back to when it goes wrong. What a NaN in a gradient does to
 * the parameters shows in the loss of the next step, when the damaged state may have been saved already. So a checkpoint is
 * healthy only when it is safe and `need` good steps were made after it.
 */
#ifndef CKPT_TRAINER_MONITOR_H
#define CKPT_TRAINER_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

enum { MONITOR_KEPT = 32, MONITOR_ATTEMPTS = 3 };

struct monitor {
	uint64_t need;               /* set by the owner */
	uint64_t every;              /* steps between saves to storage, set by the owner; 0: none */
	uint64_t safe[MONITOR_KEPT]; /* steps of checkpoints, ascending, the newest ones */
	int count;
	uint64_t good; /* the newest step that was good */
	uint64_t bad;  /* the newest one that was not; 0: none */
	int attempts;  /* to get over it */
};

/* The checkpoint of `step` is safe; told any number of times. */
void monitor_safe(struct monitor *monitor, uint64_t step);

/* The step that led to `step` had this loss. False: it is bad, and the state that it started from is not to be trusted. */
bool monitor_step(struct monitor *monitor, uint64_t step, double loss);

/* Whether there is hope: false when the same step was bad again, MONITOR_ATTEMPTS times. */
bool monitor_may_go_back(const struct monitor *monitor);

/* The newest checkpoint before `below` that is healthy as far as this rank knows; 0: it knows none. */
uint64_t monitor_healthy(const struct monitor *monitor, uint64_t below);

/*
 * Where to look when no rank knows a healthy one (all were replaced): the newest step before `below` that was due for
 * storage and lies `need` steps before the bad one. 0: there is none, the run begins afresh.
 */
uint64_t monitor_scheduled(const struct monitor *monitor, uint64_t below);

#endif
