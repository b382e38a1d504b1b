#include "report/report_match.h"

#include "base/bytes.h"

enum { HANG_MOST_MS = 3600000 };

/* So long after the fault it may have been found; a rank that hangs counts as one only after hang-timeout. */
static bool in_time(const struct report *r, const struct report_fault *f, uint64_t seen)
{
	return seen - f->at <= SOON_NS + min_u64(r->hang_ms, HANG_MOST_MS) * CLOCK_NS_PER_MS;
}

/* The first that fits; of those that were overtaken the last. */
static struct report_fault *claimant(struct report *r, const struct report_recovery *one)
{
	size_t to = REPORT_SINCE(r->faults, struct report_fault, at, one->seen + 1),
	       from = to > LOOK_BACK ? to - LOOK_BACK : 0;
	struct report_fault *late = NULL;
	for (size_t i = from; i < to; i++) {
		struct report_fault *f = &r->faults.at[i];
		if (!f->fired || f->recovery != SIZE_MAX || !in_time(r, f, one->seen) || !report_fits(f, one))
			continue;
		if (!f->overtaken)
			return f;
		late = f;
	}
	return late;
}

static void overtake(struct report *r, const struct report_recovery *one)
{
	size_t to = REPORT_SINCE(r->faults, struct report_fault, at, one->seen + 1);
	for (size_t i = to > LOOK_BACK ? to - LOOK_BACK : 0; i < to; i++)
		r->faults.at[i].overtaken = true;
}

/* By rank, where to look for the next time that it was found hanging. */
struct hangs {
	size_t next[REPORT_RANKS_MAX];
};

static const char *hang_text(const struct report *r, struct hangs *h, uint32_t rank)
{
	if (rank >= REPORT_RANKS_MAX)
		return NULL;
	for (size_t *i = &h->next[rank]; *i < r->hangs.n;)
		if (r->hangs.at[(*i)++].rank == rank)
			return r->hangs.at[*i - 1].text;
	return NULL;
}

static void claim(struct report *r, struct hangs *h, struct report_fault *f, size_t index)
{
	struct report_recovery *one = &r->recoveries.at[index];
	enum trace trace = report_trace_of(f);
	const char *hang = trace == BY_HANG ? hang_text(r, h, f->rank) : NULL;
	bool left = trace == BY_LOSS_VALUE || trace == BY_REPLICAS || trace == BY_MISMATCH;
	one->fault = (size_t)(f - r->faults.at);
	f->recovery = index;
	if (trace != BY_DAEMON)
		report_found(f,
			     hang   ? "launcher"
			     : left ? "trainer"
				    : "daemon",
			     one->seen,
			     hang   ? hang
			     : left ? one->left
				    : one->reason);
	f->back = one->back;
	f->end = REPORT_RECOVERED;
	/* who caused it knows better than the last heartbeat when that was */
	uint64_t began = max_u64(one->began, min_u64(f->at, one->seen));
	one->parts[PART_DETECT] = (double)(one->seen - began) / 1e6;
	one->began = began;
}

static void match_recoveries(struct report *r)
{
	struct hangs hangs = {0};
	for (size_t i = 0; i < r->recoveries.n; i++) {
		struct report_recovery *one = &r->recoveries.at[i];
		struct report_fault *f = one->start ? NULL : claimant(r, one);
		if (f)
			claim(r, &hangs, f, i);
		if (!one->start)
			overtake(r, one);
	}
}

void report_match(struct report *r)
{
	match_recoveries(r);
	for (size_t i = 0; i < r->faults.n; i++) {
		struct report_fault *f = &r->faults.at[i];
		if (f->fired)
			report_look_at_signs(r, f);
		else
			f->end = REPORT_NOT_FIRED;
	}
}
