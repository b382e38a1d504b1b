#include "report/report_read.h"

#include "base/bytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where that epoch is in the order of the epochs, or is to come. */
static size_t place_of(const struct report *r, uint32_t epoch)
{
	size_t from = 0, to = r->order.n;
	while (from < to) {
		size_t middle = (from + to) / 2;
		if (r->recoveries.at[r->order.at[middle]].epoch < epoch)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

struct report_recovery *report_epoch(struct report *r, uint32_t epoch)
{
	size_t i = place_of(r, epoch);
	if (i < r->order.n && r->recoveries.at[r->order.at[i]].epoch == epoch)
		return &r->recoveries.at[r->order.at[i]];
	struct report_recovery *one = REPORT_MORE(r->recoveries, NOTED_MAX);
	if (!one || !REPORT_MORE(r->order, NOTED_MAX))
		return NULL;
	memmove(r->order.at + i + 1, r->order.at + i, (r->order.n - 1 - i) * sizeof(*r->order.at));
	r->order.at[i] = (uint32_t)(r->recoveries.n - 1);
	*one = (struct report_recovery){.epoch = epoch, .fault = SIZE_MAX};
	for (int p = 0; p < REPORT_PARTS; p++)
		one->span[p] = one->ranks[p] = NAN;
	return one;
}

/* ---- when all is read ---------------------------------------------------------------------------------------------- */

static double known(double ms)
{
	return ms > 0 ? fmin(ms, LONGEST_MS) : 0;
}

/* When its loss was seen, by whom that was first, and its parts by who knows them all, else by the ranks. */
static void settle(struct report_recovery *one)
{
	double until = one->span[PART_GATHER] + one->span[PART_CHOOSE] + one->span[PART_FETCH];
	uint64_t seen = isnan(until) ? 0 : time_before(one->span_ended, until + known(one->span[PART_DECIDE]));
	one->by_daemon = !isnan(until) && !isnan(one->span[PART_DECIDE]);
	memcpy(one->parts, one->by_daemon ? one->span : one->ranks, sizeof(one->parts));
	one->seen = one->noticed && (!seen || one->noticed < seen) ? one->noticed : seen;
	if (!one->back && one->span_ended)
		one->back =
			one->span_ended + (uint64_t)(known(one->span[PART_LOAD] + one->span[PART_FIRST_STEP]) * 1e6);
	if (!one->seen)
		one->seen = one->back;
	one->began = time_before(one->seen, one->parts[PART_DETECT]);
}

/* The first way into an epoch after the job was started. */
static void mark_starts(struct report *r)
{
	size_t i = 0;
	for (size_t s = 0; s < r->segments.n; s++) {
		while (i < r->recoveries.n && r->recoveries.at[i].back < r->segments.at[s].started)
			i++;
		if (i < r->recoveries.n) {
			r->recoveries.at[i].start = true;
			r->recoveries.at[i].began = r->recoveries.at[i].seen = r->segments.at[s].started;
		}
	}
}

static int by_epoch(const void *a, const void *b)
{
	uint32_t x = ((const struct report_recovery *)a)->epoch, y = ((const struct report_recovery *)b)->epoch;
	return x < y ? -1 : x > y;
}

/* What led to an epoch that no rank came into led to the next one, too. */
static void hand_on(const struct report_recovery *one, struct report_recovery *next)
{
	if (*one->reason && !strstr(next->reason, " is lost"))
		memcpy(next->reason, one->reason, sizeof(next->reason));
	if (!*next->passed_over)
		memcpy(next->passed_over, one->passed_over, sizeof(next->passed_over));
}

/* A loss within a recovery cuts it short, and both are one: the ranks count so, too. */
static void merge_cut_short(struct report *r)
{
	size_t kept = 0, entered = r->recoveries.n;
	while (entered && !r->recoveries.at[entered - 1].back)
		entered--;
	for (size_t i = 0; i < r->recoveries.n; i++) {
		struct report_recovery *one = &r->recoveries.at[i];
		if (i + 1 < entered && !one->back)
			hand_on(one, one + 1);
		else
			r->recoveries.at[kept++] = *one;
	}
	r->recoveries.n = kept;
}

void report_settle_epochs(struct report *r)
{
	if (r->recoveries.n)
		qsort(r->recoveries.at, r->recoveries.n, sizeof(*r->recoveries.at), by_epoch);
	merge_cut_short(r);
	for (size_t i = 0; i < r->recoveries.n; i++)
		settle(&r->recoveries.at[i]);
	mark_starts(r);
}
