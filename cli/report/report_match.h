/* Which fault led to which recovery, and what found it.
 *
 * A recovery is of the first fault before it that can have led to it and that no other recovery has claimed. A fault
 * whose effect an earlier recovery has undone comes last. So two faults of a kind never share a recovery.
 *
 *	report_match.c  the recoveries         report_signs.c  what needs no recovery of ranks
 *	report_trace.c  what a kind leaves behind */
#ifndef CKPT_CLI_REPORT_MATCH_H
#define CKPT_CLI_REPORT_MATCH_H

#include "report/report.h"

#include "base/clock.h"

enum { LOOK_BACK = 64 };              /* faults, and signs of slow ranks */
#define SOON_NS (60 * CLOCK_NS_PER_S) /* so long after a fault its effect shows, or it does not */

/* How a fault comes to be seen. */
enum trace {
	BY_NOTHING,    /* a kind that this program does not know */
	BY_LOSS,       /* its rank is lost, and comes as a new process */
	BY_HANG,       /* the same, because the launcher ends it */
	BY_LOSS_VALUE, /* ranks leave the epoch: the loss is no number */
	BY_REPLICAS,   /* ranks leave the epoch: their replicas differ */
	BY_MISMATCH,   /* ranks leave the epoch: they were in different collectives */
	BY_DRAIN,      /* the node's ranks go to others */
	BY_READING,    /* whoever reads that step finds it: its save, which is read back, or a restore */
	BY_SAVE,       /* a save fails */
	BY_WAITING,    /* saves take longer: the next one is durable */
	BY_DAEMON,     /* the daemon does not answer */
	BY_NODE,       /* the others lose it, and its ranks come as new processes */
	BY_NETWORK,    /* whatever is lost until the job is at work again */
	BY_LATENESS,   /* its rank is named as slow */
	BY_MONITOR,    /* a daemon names the loss */
};

enum trace report_trace_of(const struct report_fault *f);
/* Whether the fault can have led to that recovery. */
bool report_fits(const struct report_fault *f, const struct report_recovery *one);
/* When its outcome was seen: of a fault of the network, when the job was at work again. */
uint64_t report_outcome_at(const struct report_fault *f);
/* at 0: nobody notes when. */
void report_found(struct report_fault *f, const char *by, uint64_t at, const char *text);

/* report_signs.c: of a fault that has fired. */
void report_look_at_signs(struct report *r, struct report_fault *f);

#endif
