/*
 * Faults on purpose, played by this rank itself, as `ckpt run --inject` hands them out in CKPT_PLAY:
 *
 *	FAULTS = FAULT *( "," FAULT )
 *	FAULT  = NAME [ ":" MILLISECONDS ] "@" STEP
 *
 * Each happens once, in the first step from STEP on in which its place is reached.
 */
#ifndef CKPT_TRAINER_FAULTS_H
#define CKPT_TRAINER_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum faults_kind {
	FAULTS_TRAP,            /* "trap": on the device, after the backward pass */
	FAULTS_ILLEGAL_ADDRESS, /* "illegal-address": the same */
	FAULTS_NEVER_ENDS,      /* "never-ends": the same */
	FAULTS_DEVICE_LOST,     /* "device-lost": the same */
	FAULTS_ECC,             /* "ecc": the same */
	FAULTS_ABSENT,          /* "absent": instead of the first collective */
	FAULTS_MISMATCH,        /* "mismatch": another collective than the others are in */
	FAULTS_NAN,             /* "nan": in a gradient */
	FAULTS_FLIP,            /* "flip": a bit of a parameter, before the next save that every rank has a slot for */
	FAULTS_SLOW,            /* "slow": so many milliseconds in each of SLOW_STEPS steps */
	FAULTS_LOSS_SPIKE,      /* "loss-spike": the loss of each of SPIKE_STEPS steps, and nothing else */
	FAULTS_EXIT_EARLY,      /* "exit-early": the process ends with status 0 */
	FAULTS_KINDS,
};

enum { FAULTS_SLOW_STEPS = 30, FAULTS_SPIKE_STEPS = 8, FAULTS_LIST_MAX = 256, FAULTS_WHY_SIZE = 160 };

struct faults_one {
	enum faults_kind kind;
	uint64_t step, ms;
	bool done;
};

struct faults {
	struct faults_one list[FAULTS_LIST_MAX];
	size_t count;
};

/* NULL and "" mean none. 0, or -EINVAL and a sentence. */
int faults_parse(struct faults *faults, const char *text, char why[FAULTS_WHY_SIZE]);

/* One more, from the next step on. -EINVAL: this rank does not know the name, or the list is full. */
int faults_add(struct faults *faults, const char *name, uint64_t ms, uint64_t step);

/* Whether one of the kind is to happen in this step. */
bool faults_wait(const struct faults *faults, enum faults_kind kind, uint64_t step);
/* The same; it is then done. */
bool faults_take(struct faults *faults, enum faults_kind kind, uint64_t step);
/* How long the rank is to be slow in this step; 0: not at all. */
uint64_t faults_slow_ms(const struct faults *faults, uint64_t step);
/* Whether the loss of this step is to be far too high. */
bool faults_spike(const struct faults *faults, uint64_t step);

#endif
