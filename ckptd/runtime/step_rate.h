/* Step rate: how long the steps of one rank take, as its heartbeats in the arena tell. It is looked at with the ticks of the loop: of steps
 * that are shorter than a tick the mean is counted, that many times. */
#ifndef CKPTD_RUNTIME_STEP_RATE_H
#define CKPTD_RUNTIME_STEP_RATE_H

#include "runtime/histogram.h"

enum { PACE_RECENT = 48 };

struct pace {
	struct histogram steps;
	uint32_t recent_us[PACE_RECENT]; /* a ring */
	uint32_t nrecent, at;            /* filled; where the next one goes */
	/* private */
	uint32_t epoch; /* 0: no heartbeat of this epoch was seen */
	uint64_t step, step_ns;
};

/* A heartbeat: the rank was at `step` at beat_ns. What lies between two epochs is no step. */
void pace_beat(struct pace *pace, uint32_t epoch, uint64_t step, uint64_t beat_ns);

/* The median of the recent ones, the lower of two; 0: there are none. */
uint32_t pace_median_us(const struct pace *pace);

#endif
