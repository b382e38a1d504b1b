/* What a job has shown of itself in span logs (docs/reference/monitoring.md), for a plan: how long saves and recoveries take, and how often
 * something was lost. */
#ifndef CKPT_CLI_PLAN_SPANS_H
#define CKPT_CLI_PLAN_SPANS_H

#include "base/err.h"

#include <stdint.h>

struct plan_spans {
	uint64_t saves, recoveries; /* recoveries after a loss */
	double seconds;             /* from the first line to the last */
	double mtbf;                /* of the job; INFINITY: nothing was lost */
	/* medians in seconds; NAN: not known */
	double capture, replicate, write, detect, restart;
	double bytes; /* of one save on this node */
};

/* Files are read to their end; a line that is not whole (the daemon still writes) ends its file. -ENODATA: no save in any of them. */
int plan_spans_read(const char *const *paths, unsigned n, struct plan_spans *out, struct err *err);

#endif
