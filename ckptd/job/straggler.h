/* Straggler: finds the ranks that are late again and again, and for which the others wait. It sees numbers and the clock, and nothing else.
 *
 * Ranks that meet in collectives all have the step time of the slowest: it does not tell who that is. What tells is where they spend the time.
 * The late one computes until the others are long there, and is in the collective for a moment; they are in it for as long as they wait. So
 * what counts of a rank is its own part: the share of a round of steps in which it was in no collective. It is compared with the median of
 * the own parts of the others.
 *
 * Single steps are no measure: on clusters the 99th percentile of steps is two to three times the median. Of each rank the logarithms of
 * that ratio are summed up over the rounds, each less SLACK, and never below 0: the cumulative sum test of E. S. Page (Continuous
 * inspection schemes, Biometrika 41, 1954), which finds a lasting shift soonest for a given rate of false alarms. Two things make it
 * robust: the median, and that one round counts at most as twice as long (winsorised, as by P. J. Huber), so that no pause, however long,
 * makes a straggler. At LIMIT the rank is late; it is so until the sum is back at 0.
 *
 *	quiet ── sum ≥ LIMIT ──► late            a new epoch, or a rank that takes no part: all begin anew
 *	      ◄── sum = 0 ─────
 *
 * Compared are ranks that keep flight records, and enter about as many collectives as the median one: who tells of none, or has another
 * part in the job, could not be told from one that never waits. */
#ifndef CKPTD_JOB_STRAGGLER_H
#define CKPTD_JOB_STRAGGLER_H

#include "format/message/wire.h"

#include <stdbool.h>
#include <stdint.h>

enum { STRAGGLER_STEPS = 8 };            /* of each rank, that a round has at least */
#define STRAGGLER_ROUND_NS 5000000000ull /* that it takes at least */
/* Sums of natural logarithms. */
#define STRAGGLER_SLACK 0.2 /* half of what is looked for: one and a half times */
#define STRAGGLER_MOST 0.69 /* that one round counts: twice as long */
#define STRAGGLER_LIMIT 4.0
#define STRAGGLER_LEAST 0.02 /* share of the time beyond the others; less costs nobody anything */

/* What is seen of a rank: counters that only grow. */
struct straggler_sample {
	uint64_t step;
	uint64_t waited_ns; /* in collectives, in all */
	uint64_t left;      /* collectives, in all */
};

struct straggler_rank {
	bool compared; /* in the last round; else what follows is of no use */
	double own;    /* share of the last round in which it was in no collective */
	double ratio;  /* of that to the median of the others' */
	double cost;   /* share of the time for which the others waited for it alone, at most */
	bool late;
	uint64_t since_ns; /* when its sum has left 0; 0: it has not */
	double lost_ns;    /* since then, by cost */
	/* private */
	double sum;
	struct straggler_sample from; /* where the round began */
};

struct stragglers {
	uint32_t n;
	uint32_t rounds;   /* that were judged in this epoch */
	uint64_t round_ns; /* how long the last one took */
	struct straggler_rank ranks[WIRE_LOCAL_MAX];
	/* private */
	uint32_t epoch; /* 0: no round has begun */
	bool warm;      /* the first round of the epoch is over: it has what comes with an epoch */
	uint64_t from_ns;
};

/* All of n ranks of the epoch are at work, and this is seen of them. True: a round has ended, and all was judged anew. */
bool straggler_look(struct stragglers *s, uint32_t epoch, const struct straggler_sample *samples, uint32_t n,
		    uint64_t now);
/* Some are not: nobody is late any more, and all begins anew with the next look. */
void straggler_forget(struct stragglers *s);

#endif
