#include "report/report.h"

#include "base/doubles.h"

#include <math.h>
#include <stdlib.h>

enum measure { FOUND, RECOVERY, STEPS, STALL };

static const struct {
	const char *name, *unit;
} kinds[REPORT_SPREADS] = {
	[FOUND] = {"found", "ms"},
	[RECOVERY] = {"recovery", "ms"},
	[STEPS] = {"steps_lost", "steps"},
	[STALL] = {"save_stall", "ms"},
};

/* The i-th, NAN: it has none. */
static double value(const struct report *r, enum measure m, size_t i)
{
	if (m == FOUND)
		return report_found_ms(&r->faults.at[i]);
	if (m == STALL)
		return (double)r->stalls.at[i].ms;
	const struct report_recovery *one = &r->recoveries.at[i];
	return one->start ? NAN : m == STEPS ? (double)one->steps_lost : report_total_ms(one);
}

static double rank_of(const double *sorted, size_t n, double share)
{
	size_t i = (size_t)(share * (double)n);
	return sorted[i < n ? i : n - 1];
}

static void spread(struct report_spread *s, double *values, size_t n)
{
	doubles_sort(values, n);
	s->n = n;
	if (!n)
		return;
	s->least = values[0];
	s->most = values[n - 1];
	s->p50 = rank_of(values, n, 0.5);
	s->p90 = rank_of(values, n, 0.9);
	s->p99 = rank_of(values, n, 0.99);
	for (size_t i = 0; i < n; i++) {
		double bin = s->most > 0 ? values[i] / s->most * SPREAD_BINS : 0;
		s->bins[bin < SPREAD_BINS ? (size_t)bin : SPREAD_BINS - 1]++;
	}
}

int report_spreads(const struct report *r, struct report_spread out[REPORT_SPREADS])
{
	const size_t most[REPORT_SPREADS] = {r->faults.n, r->recoveries.n, r->recoveries.n, r->stalls.n};
	for (enum measure m = FOUND; m <= STALL; m++) {
		double *values = calloc(most[m] + 1, sizeof(*values));
		size_t n = 0;
		if (!values)
			return -ENOMEM;
		for (size_t i = 0; i < most[m]; i++) {
			values[n] = value(r, m, i);
			if (!isnan(values[n]))
				n++;
		}
		out[m] = (struct report_spread){.name = kinds[m].name, .unit = kinds[m].unit};
		spread(&out[m], values, n);
		free(values);
	}
	return 0;
}
