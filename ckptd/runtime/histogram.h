/* Histogram: how often a duration fell where. The bounds are fixed and grow by 1, 2.5, 5, 10, from 1 ms to 500 s. That
 * serves a step, a capture and a commit alike, in a few hundred bytes. */
#ifndef CKPTD_RUNTIME_HISTOGRAM_H
#define CKPTD_RUNTIME_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_BOUNDS = 18 };

struct histogram {
	uint64_t buckets[HISTOGRAM_BOUNDS + 1]; /* the last one: longer than all bounds */
	uint64_t count;
	uint64_t sum_ns;
};

/* The upper bound of bucket i in nanoseconds, inclusive; i < HISTOGRAM_BOUNDS. */
uint64_t histogram_bound_ns(unsigned i);
/* `times` durations of `ns` each. */
void histogram_add(struct histogram *h, uint64_t ns, uint64_t times);
/* About where the share q (0 to 1) of all durations ends, between the bounds linearly; the last bound for what is longer.
 * 0 when it is empty. */
uint64_t histogram_quantile_ns(const struct histogram *h, double q);

#endif
