/* Straggling: finds the ranks and nodes of a whole job that are late again and again, and for which the others wait. It
 * sees numbers and clocks, and nothing else.
 *
 * Ranks that meet in collectives all have the step time of the slowest: it does not tell who that is. What tells is where
 * they spend the time. The late one computes until the others are long there, and is in the collective for a moment; they
 * are in it for as long as they wait. So what counts of a rank is its own part: the share of a round of steps in which it
 * was in no collective. Each node has a clock of its own, so it is a share of its node's time, and the round ends when
 * each node has had its own.
 *
 *	who      own part                            is compared with
 *	rank     its own                             the median of all other ranks, or that of the others on its node: the larger one
 *	node     the median of its ranks, the lower  the median of the other nodes
 *	         one of two
 *
 * So a rank is named only where it stands out at home too. Is more than half of a node late, then the node is; a node
 * with one rank is not judged, its rank is.
 *
 * Single steps are no measure: on clusters the 99th percentile of steps is two to three times the median. Of each rank
 * and node the logarithms of that ratio are summed up over the rounds, each less SLACK, and never below 0: the cumulative
 * sum test of E. S. Page (Continuous inspection schemes, Biometrika 41, 1954), which finds a lasting shift soonest for a
 * given rate of false alarms. Two things make it robust: the median, and that one round counts at most as twice as long
 * (winsorised, as by P. J. Huber), so that no pause, however long, makes a straggler. At LIMIT it is late; it is so until
 * the sum is back at 0.
 *
 *	quiet ── sum ≥ LIMIT ──► late            a new epoch, or a node that has other ranks: all begin anew
 *	      ◄── sum = 0 ─────
 *
 * Only ranks are compared that keep flight records, and enter about as many collectives as the median one. A rank that
 * tells of none, or has another part in the job, looks like one that never waits. */
#ifndef CKPTD_COORDINATOR_STRAGGLING_H
#define CKPTD_COORDINATOR_STRAGGLING_H

#include <stdbool.h>
#include <stdint.h>

enum { STRAGGLING_STEPS = 8 };            /* of each rank, that a round has at least */
#define STRAGGLING_ROUND_NS 5000000000ull /* that it takes at least */
/* Sums of natural logarithms. */
#define STRAGGLING_SLACK 0.2 /* half of what is looked for: one and a half times */
#define STRAGGLING_MOST 0.69 /* that one round counts: twice as long */
#define STRAGGLING_LIMIT 4.0
#define STRAGGLING_LEAST 0.02 /* share of the time beyond the others; less costs nobody anything */

/* What is seen of a rank: counters that only grow. */
struct straggling_sample {
	uint64_t step;
	uint64_t waited_ns; /* in collectives, in all */
	uint64_t left;      /* collectives, in all */
};

/* A rank or a node. */
struct straggling_one {
	bool compared; /* in the last round; else ratio and cost are 1 and 0 */
	double own;    /* part of the last round */
	double ratio;  /* of that to what it is compared with */
	double cost;   /* share of the time for which all others waited for it alone, at most */
	bool late;
	uint64_t since_ns; /* when its sum has left 0; 0: it has not */
	double lost_ns;    /* since then, by cost */
	/* private */
	double sum;
};

struct straggling_rank {
	struct straggling_one is;
	uint32_t node, next; /* next: rank of the node; the world: none */
	/* private */
	struct straggling_sample from, to;
};

struct straggling_node {
	struct straggling_one is;
	uint32_t ranks, first; /* how many it has, and the first of them */
	/* private */
	uint64_t from_ns, to_ns; /* by its own clock; from 0: it has told nothing yet */
	uint32_t at, n;          /* where the own parts of its ranks lie; of those that are compared */
	double most;             /* of them */
};

struct straggling {
	uint32_t world, nnodes, epoch; /* epoch 0: none */
	uint32_t rounds;               /* that were judged */
	struct straggling_rank *ranks;
	struct straggling_node *nodes;
	/* private */
	double *sorted; /* own parts of all ranks that are compared */
	double *middle; /* and of the nodes that have one */
	double *its;    /* by node, and sorted there */
	uint32_t nsorted, nmiddle;
	uint64_t from_ns; /* when the round began */
	bool warm;        /* the first round of the epoch is over: it has what comes with an epoch */
};

/* The rank is owners[rank]'s. -ENOMEM: it stays as after straggling_end. */
int straggling_begin(struct straggling *s, uint32_t epoch, uint32_t world, const uint32_t *owners, uint32_t nnodes);
void straggling_end(struct straggling *s);
/* What a node has seen of a rank of its own at node_ns of its clock; all of its ranks come in one go. */
void straggling_take(struct straggling *s, uint32_t rank, uint64_t node_ns, const struct straggling_sample *is);
/* True: a round has ended, and all was judged anew. */
bool straggling_judge(struct straggling *s, uint64_t now);

#endif
