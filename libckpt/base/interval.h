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

#endif
