/* Metrics: what the daemon counts and measures, as Prometheus' text format 0.0.4. Names, units and labels:
 * docs/reference/monitoring.md. Series of a job end with the job, and begin at 0 when it comes back. */
#ifndef CKPTD_OBSERVE_METRICS_H
#define CKPTD_OBSERVE_METRICS_H

#include "base/bytes.h"

struct observe;

/* 0 or -ENOMEM. */
int metrics_encode(struct observe *observe, struct wbuf *out);

#endif
