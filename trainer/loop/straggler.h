/*
 * Finds the rank that all others wait for: the one whose own part of a step (data, forward, backward) takes far longer than that of
 * the middle one, for a while. Pure: every rank is told the same times and comes to the same end.
 */
#ifndef CKPT_TRAINER_STRAGGLER_H
#define CKPT_TRAINER_STRAGGLER_H

#include <stdbool.h>
#include <stdint.h>

/* So many steps in a row, FACTOR times as long as the middle one and at least LEAST_MS longer: less is noise. */
enum { STRAGGLER_STEPS = 8, STRAGGLER_FACTOR = 2, STRAGGLER_LEAST_MS = 5 };

struct straggler {
	int suspect; /* the slowest of the last step, if it was that slow; valid when streak > 0 */
	int streak;
	int rank;  /* found; valid when `slow` */
	bool slow; /* there is one */
	int sound; /* steps in a row in which it was not that slow */
	uint64_t since, steps;
	double lost_ms;            /* by the step, all together: beyond the next slowest rank */
	double rank_ms, middle_ms; /* of the last step */
};

enum straggler_news { STRAGGLER_NOTHING, STRAGGLER_FOUND, STRAGGLER_OVER };

/* What the ranks' parts of the step that led to `step` took; scratch[world] is overwritten. */
enum straggler_news straggler_step(struct straggler *straggler, uint64_t step, const double *ms, int world,
				   double *scratch);

#endif
