/* The model of the service that a plan is made for, and what follows from it by formula.
 *
 * Failures come at random (exponential): `soft` ones leave the memory of all nodes, the others take a node; outages take all memory. A save
 * to memory stalls training for `stall`; it counts for soft failures when it is captured, and for the loss of a node when its copies are
 * there. Each k-th goes on to storage, beside training. A lost node's copies are made anew within `remake`. What can be restored from
 * memory is, the rest comes from storage. */
#ifndef CKPT_CLI_PLAN_MODEL_H
#define CKPT_CLI_PLAN_MODEL_H

#include <stdbool.h>
#include <stdint.h>

struct plan_input {
	double gpus, gpus_per_node;
	double state;                   /* bytes of all ranks */
	double mtbf_node, mtbf_cluster; /* seconds; of outages: INFINITY: there are none */
	bool spared;                    /* nothing fails while the job recovers; mtbf_* are then of the other time */
	double soft;                    /* share of the failures of nodes */
	unsigned copies;                /* of each snapshot on other nodes */
	double store_bandwidth;         /* bytes/s of all nodes together */
	double fabric_bandwidth;        /* of one node */
	double capture_bandwidth;       /* of one GPU into host memory */
	double stall;                   /* seconds per save; 0: all of the capture */
	double detect, restart;         /* until a failure is seen; until the processes are there and connected */
	double step;                    /* seconds; intervals are whole steps */
	double storage_least, storage_most; /* seconds between saves to storage */
	double overhead;                    /* share of the time that stalls may take */
	double price;                       /* per GPU hour; 0: not asked */
	double baseline;                    /* interval of synchronous saves to storage */
};

/* Defaults for what is not given. */
struct plan_input plan_defaults(void);

struct plan_tier {
	double mtbf;                  /* between failures that this tier serves */
	double young, daly, interval; /* seconds; what is taken: daly within its bounds */
	double lost;                  /* expected, of one failure: computation that is done again */
	double restart;               /* until training goes on, without that */
	double goodput;               /* that it leaves */
	const char *bound; /* what decided the interval: "formula", "step", "overhead", "fabric", "store", "most" */
};

struct plan_result {
	double nodes, node_state, stall, capture, replicate, write, fetch, read, remake;
	struct plan_tier memory, storage;
	double failures;      /* per day, of all kinds */
	double goodput;       /* of both tiers */
	double host_memory;   /* bytes of a node: arenas and copies */
	double fabric, store; /* bytes/s that are needed: of a node; of all */
	double baseline_goodput;
	double cost_day, baseline_cost_day; /* money lost, by price */
};

struct plan_result plan_compute(const struct plan_input *in);
/* By formula, at another interval of saves to memory, or of the synchronous ones. */
double plan_goodput_at(const struct plan_input *in, const struct plan_result *result, double interval);
double plan_baseline_at(const struct plan_input *in, const struct plan_result *result, double interval);

/* What a change of one input would bring. */
struct plan_change {
	const char *what;
	double goodput; /* difference */
};
enum { PLAN_CHANGES = 6 };
/* The best first. */
void plan_changes(const struct plan_input *in, struct plan_change out[PLAN_CHANGES]);

#endif
