/* How often to save: the interval between saves for which least time is lost, by formula.
 *
 *	Young: J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974
 *	Daly:  J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22(3), 2006
 *
 * Times in seconds. The interval is of computation, without the save itself. */
#ifndef CKPT_BASE_INTERVAL_H
#define CKPT_BASE_INTERVAL_H

/* sqrt(2 cost mtbf). */
double interval_young(double cost, double mtbf);
/* Daly's equation 37; mtbf where a save costs twice that and more. */
double interval_daly(double cost, double mtbf);
/* The share of the time that is computation which stays (Daly's complete model, exponential failures): `restart` is from a failure until
 * the work that is redone begins. 1 for an infinite mtbf and no cost. */
double interval_goodput(double interval, double cost, double restart, double mtbf);
/* The same where nothing fails during `restart`, and mtbf is of the other time. */
double interval_goodput_spared(double interval, double cost, double restart, double mtbf);

/* A bound from below, and its name for people. */
struct interval_least {
	double seconds;
	const char *name;
};

struct interval {
	double seconds;
	const char *bound; /* what decided it: "formula", "most", or the name of the last bound that raised it */
};

/* Daly's interval, at most `most` (INFINITY: any), and then at least each of n bounds. */
struct interval interval_choose(double cost, double mtbf, double most, const struct interval_least *least, unsigned n);
/* Rounded up to whole units, at least one. */
double interval_whole(double seconds, double unit);

/* What is assumed of failures before any was seen; also the defaults of `ckpt plan`. A node of 8 GPUs: 419 failures in 54
 * days on 16,384 GPUs, as published for Llama 3 (docs/examples/campaigns/llama3-2024.csv). Outages take the memory of all
 * nodes: assumed, not measured. */
#define INTERVAL_DAY 86400.0
#define INTERVAL_NODE_MTBF (264 * INTERVAL_DAY)
#define INTERVAL_OUTAGE_MTBF (90 * INTERVAL_DAY)
#define INTERVAL_SOFT 0.5 /* share of the failures of nodes that leave their memory */

#endif
