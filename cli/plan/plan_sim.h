/* The same model, event by event: failures, saves to memory and to storage, copies and their loss, recoveries. A function of its seed. */
#ifndef CKPT_CLI_PLAN_SIM_H
#define CKPT_CLI_PLAN_SIM_H

#include "plan/plan_model.h"

/* Where so much happens, a simulation ends early: some tenths of a second. */
enum { PLAN_LOOKS_MAX = 2000000 };

struct plan_sim {
	double seconds;                   /* simulated; less than was asked for where too much happens */
	double goodput;                   /* share of them that is computation which stayed */
	double stalled, lost, recovering; /* the other shares: saves, work that is done again, until training went on */
	uint64_t failures, from_memory, from_storage, saves;
	double lost_work; /* seconds, all failures together */
};

/* With the intervals of *plan. */
struct plan_sim plan_simulate(const struct plan_input *in, const struct plan_result *plan, double seconds,
			      uint64_t seed);
/* Synchronous saves to storage alone, every in->baseline of computation. */
struct plan_sim plan_simulate_baseline(const struct plan_input *in, const struct plan_result *plan, double seconds,
				       uint64_t seed);

#endif
