/* Machine metrics: what was read of this machine (machine/checkup.h), as metrics. */
#ifndef CKPTD_OBSERVE_MACHINE_METRICS_H
#define CKPTD_OBSERVE_MACHINE_METRICS_H

#include "base/bytes.h"

struct machine;

/* What was not read is left out. NULL is allowed. */
void machine_metrics(const struct machine *machine, struct wbuf *out);

#endif
