/* What each rank did, and when: from how it came into each epoch, and from what was lost before. */
#include "report/report.h"

#include "base/bytes.h"

#include <stdlib.h>

const char *report_state_name(enum report_state state)
{
	static const char *const names[REPORT_STATES] = {"none",     "computing",  "saving",
							 "starting", "recovering", "lost"};
	return names[state];
}

/* As many are on each but the spares, at the start. */
uint32_t report_node_of(const struct report *r, uint32_t rank)
{
	uint32_t each = r->ranks / (r->nodes - r->spares);
	return each ? rank / each : 0;
}

/* Behind what the rank was seen to do before. */
static int add(struct report *r, uint32_t rank, enum report_state state, uint64_t from, uint64_t to)
{
	struct report_rank *at = &r->at[rank];
	from = max_u64(from, at->until);
	if (from >= to)
		return 0;
	struct report_interval *i = REPORT_MORE(r->intervals, SIZE_MAX);
	if (!i)
		return -ENOMEM;
	*i = (struct report_interval){.from = from, .to = to, .rank = rank, .state = state};
	at->seconds[state] += (double)(to - from) / 1e9;
	at->until = to;
	return 0;
}

static int by_epoch(const void *key, const void *one)
{
	uint32_t x = *(const uint32_t *)key, y = ((const struct report_recovery *)one)->epoch;
	return x < y ? -1 : x > y;
}

static uint64_t started_before(const struct report *r, uint64_t at)
{
	size_t i = REPORT_SINCE(r->segments, struct report_segment, started, at);
	return i ? r->segments.at[i - 1].started : at;
}

/* A new process takes the place of one that was lost, some time ago. */
static int add_entry(struct report *r, const struct report_entry *e)
{
	const struct report_recovery *one =
		bsearch(&e->epoch, r->recoveries.at, r->recoveries.n, sizeof(*one), by_epoch);
	if (!one || e->rank >= r->ranks)
		return 0;
	if (one->start)
		return add(r, e->rank, STATE_STARTING, started_before(r, e->to), e->to);
	int rc = e->fresh ? add(r, e->rank, STATE_LOST, one->began, e->from) : 0;
	return rc ? rc : add(r, e->rank, STATE_RECOVERING, e->fresh ? e->from : one->began, e->to);
}

static void add_rest(struct report *r)
{
	for (size_t i = 0; i < r->stalls.n; i++)
		if (r->stalls.at[i].rank < r->ranks)
			r->at[r->stalls.at[i].rank].seconds[STATE_SAVING] += (double)r->stalls.at[i].ms / 1000;
	for (uint32_t rank = 0; rank < r->ranks; rank++) {
		double *seconds = r->at[rank].seconds, left = r->goodput.elapsed;
		for (int s = STATE_SAVING; s < REPORT_STATES; s++)
			left -= seconds[s];
		seconds[STATE_COMPUTING] = left > 0 ? left : 0;
	}
}

int report_draw_timeline(struct report *r)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < r->entries.n; i++)
		rc = add_entry(r, &r->entries.at[i]);
	add_rest(r);
	return rc;
}
