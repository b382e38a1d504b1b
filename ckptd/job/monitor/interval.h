/* Interval: how often the ranks of a job should save, to memory and to storage, by what was measured here; and what all
 * of them have agreed on (format/arena/schedule.h). A rank asks in its arena (ckpt_due). Before it needs the next
 * schedule, this node tells the coordinator what it would take for one; the coordinator takes the first that it is told,
 * for all nodes.
 *
 * This is measured. Steps, by what the ranks ask. How long a save keeps training waiting, by the ranks; one to storage
 * by itself, if there were enough. How long a save
 * takes until it is captured, replicated, durable (save/save_stats.h). Losses, by where the state came back from, and by
 * what was lost (restore/recovery_log.h). What was not measured yet is assumed, and said so. Belongs to the loop's thread. */
#ifndef CKPTD_JOB_INTERVAL_H
#define CKPTD_JOB_INTERVAL_H

#include "format/arena/schedule.h"

struct job;

/* Seconds; 0: not measured. */
struct interval_measure {
	double step, stall, captured, replicated, durable;
	uint64_t saves;       /* that these are of */
	double storage_stall; /* of saves to storage alone */
	uint64_t storage_saves;
	double observed;                        /* for so long losses were counted */
	uint64_t memory_losses, storage_losses; /* that memory, own or of other nodes, has served; that it has not */
	uint64_t copied_nodes;                  /* of memory_losses those of a node that copies on others have served */
};

struct interval_limits {
	bool automatic, storage, copies; /* interval = auto; there is a store; other nodes hold copies */
	double nodes, overhead, most;    /* overhead: share of the time; most: seconds */
};

struct interval_tier {
	uint64_t every; /* steps; 0: never */
	double seconds, cost, takes, mtbf;
	bool cost_measured, mtbf_measured;
	uint64_t losses;
	const char *bound; /* what decided it: "formula", "overhead", "save", "step", "memory", "most", "start" */
};

struct interval_plan {
	struct interval_tier memory, storage;
	uint64_t steps; /* for which it is to hold */
};

void interval_plan(const struct interval_measure *m, const struct interval_limits *limits, struct interval_plan *out);

struct job_interval {
	struct schedule held; /* the newest that this node was told; of another epoch: none */
	struct interval_measure measure;
	struct interval_plan plan; /* that was told last; steps 0: none */
	/* private */
	uint32_t mark_epoch, said_epoch, said_number;
	uint64_t mark_step, mark_ns, said_ns;
};

/* Looks what the ranks ask for: after a doorbell and at each tick. */
void interval_look(struct job *job);
/* The coordinator's order. */
void interval_hear(struct job *job, const struct schedule *schedule);
/* Another daemon coordinates the job, in the same epoch: it has to know what this node has. */
void interval_report_anew(struct job *job);

#endif
