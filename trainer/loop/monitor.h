/*
 * Watches the loss, and tells which checkpoints may be gone back to when it goes wrong. What a NaN in a gradient does to
 * the parameters shows in the loss of the next step, when the damaged state may have been saved already. So a checkpoint is
 * healthy only when it is safe and `need` good steps were made after it. What is found is for the daemon to remember
 * (ckpt_mark): here stand those only of which nothing is known yet.
 */
#ifndef CKPT_TRAINER_MONITOR_H
#define CKPT_TRAINER_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

enum { MONITOR_KEPT = 32, MONITOR_ATTEMPTS = 3 };

struct monitor_save {
	uint64_t step;
	uint32_t epoch;
};

struct monitor {
	uint64_t need;                          /* set by the owner */
	uint64_t every;                         /* steps between saves to storage, set by the owner; 0: none */
	struct monitor_save open[MONITOR_KEPT]; /* safe, and neither healthy nor suspect yet; by step */
	int count;
	struct monitor_save suspect[MONITOR_KEPT];
	int suspects;
	uint64_t good; /* the newest step that was good */
	uint64_t bad;  /* the newest one that was not; 0: none */
	int attempts;  /* to get over it */
};

/* The checkpoint is safe; told any number of times. Where too many are open it is passed over, so that the oldest can become healthy. */
void monitor_safe(struct monitor *monitor, struct monitor_save save);

/* The step that led to `step` had this loss. False: it is bad, and the state that it started from is not to be trusted. */
bool monitor_step(struct monitor *monitor, uint64_t step, double loss);

/* Whether there is hope: false when the same step was bad again, MONITOR_ATTEMPTS times. */
bool monitor_may_go_back(const struct monitor *monitor);

/* The oldest one that has become healthy. False: none has. */
bool monitor_healthy(const struct monitor *monitor, struct monitor_save *save);
/* It, and what is older, need not be told again. */
void monitor_told(struct monitor *monitor, uint64_t step);
/* One that may hold the damage; each is given once. False: there is none (any more). */
bool monitor_suspect(struct monitor *monitor, struct monitor_save *save);

/*
 * Where to look when no checkpoint was ever marked: the newest step before `below` that was due for storage and lies
 * `need` steps before the bad one. 0: there is none, the run begins afresh.
 */
uint64_t monitor_scheduled(const struct monitor *monitor, uint64_t below);

#endif
