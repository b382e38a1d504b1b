#include "report/report.h"

#include "base/doubles.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *report_cause_of(const struct report_fault *f)
{
	return *f->cause ? f->cause : f->kind;
}

static double since(const struct report_fault *f, uint64_t at)
{
	return at >= f->at ? (double)(at - f->at) / 1e6 : NAN;
}

double report_found_ms(const struct report_fault *f)
{
	return since(f, f->found);
}

double report_back_ms(const struct report_fault *f)
{
	return since(f, f->back);
}

double report_total_ms(const struct report_recovery *r)
{
	return r->back > r->began ? (double)(r->back - r->began) / 1e6 : 0;
}

static int by_cause(const void *a, const void *b)
{
	const struct report_fault *x = *(const struct report_fault *const *)a,
				  *y = *(const struct report_fault *const *)b;
	return strcmp(report_cause_of(x), report_cause_of(y));
}

/* Median and most of what is known. values: room for n. */
static void middle(double out[2], const struct report_fault *const *faults, size_t n, double *values,
		   double (*of)(const struct report_fault *))
{
	size_t known = 0;
	for (size_t i = 0; i < n; i++) {
		values[known] = of(faults[i]);
		if (!isnan(values[known]))
			known++;
	}
	doubles_sort(values, known);
	out[0] = known ? values[known / 2] : NAN;
	out[1] = known ? values[known - 1] : NAN;
}

static struct report_cause count(const struct report *r, const struct report_fault *const *faults, size_t n,
				 double *values)
{
	struct report_cause c = {.name = report_cause_of(faults[0]), .faults = n};
	for (size_t i = 0; i < n; i++) {
		const struct report_fault *f = faults[i];
		c.fired += f->fired;
		c.recovered += f->end == REPORT_RECOVERED;
		c.found += f->end >= REPORT_FOUND;
		if (f->recovery == SIZE_MAX)
			continue;
		c.steps_lost += r->recoveries.at[f->recovery].steps_lost;
		c.lost_s += report_total_ms(&r->recoveries.at[f->recovery]) / 1000;
	}
	middle(c.found_ms, faults, n, values, report_found_ms);
	middle(c.back_ms, faults, n, values, report_back_ms);
	return c;
}

int report_count_causes(struct report *r)
{
	size_t n = r->faults.n;
	const struct report_fault **sorted = calloc(n + 1, sizeof(*sorted));
	double *values = calloc(n + 1, sizeof(*values));
	int rc = sorted && values ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < n; i++)
		sorted[i] = &r->faults.at[i];
	if (!rc)
		qsort(sorted, n, sizeof(*sorted), by_cause);
	for (size_t from = 0, to; !rc && from < n; from = to) {
		for (to = from; to < n && !by_cause(&sorted[from], &sorted[to]); to++)
			;
		struct report_cause *c = REPORT_MORE(r->causes, n);
		rc = c ? 0 : -ENOMEM;
		if (c)
			*c = count(r, sorted + from, to - from, values);
	}
	free(sorted);
	free(values);
	return rc;
}

struct report_totals report_totals(const struct report *r)
{
	struct report_totals t = {.steps = r->ended ? r->end_step : r->step};
	for (size_t i = 0; i < r->faults.n; i++) {
		t.fired += r->faults.at[i].fired;
		t.recovered += r->faults.at[i].end == REPORT_RECOVERED;
	}
	for (size_t i = 0; i < r->recoveries.n; i++) {
		t.recoveries += !r->recoveries.at[i].start;
		t.unexplained += !r->recoveries.at[i].start && r->recoveries.at[i].fault == SIZE_MAX;
	}
	return t;
}
