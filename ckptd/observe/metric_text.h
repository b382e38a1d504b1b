/* Metric text: Prometheus' text format 0.0.4. A family comes first, then all its samples. */
#ifndef CKPTD_OBSERVE_METRIC_TEXT_H
#define CKPTD_OBSERVE_METRIC_TEXT_H

#include "base/bytes.h"
#include "runtime/room.h"

/* One label or two of a sample. A rank is a number, all else is text. */
struct labels {
	const char *name[2], *value[2];
	int rank; /* -1: none */
};

static const struct labels no_labels = {.rank = -1};

/* The same and one more. */
struct labels labels_and(struct labels l, const char *name, const char *value);

void metric_family(struct wbuf *out, const char *name, const char *type, const char *help);
void metric_sample(struct wbuf *out, const char *name, struct labels l, uint64_t value);
void metric_seconds(struct wbuf *out, const char *name, struct labels l, uint64_t ns);
void metric_real(struct wbuf *out, const char *name, struct labels l, double value);
/* Its buckets, sum and count. */
void metric_histogram(struct wbuf *out, const char *name, struct labels l, const struct histogram *h);

#endif
