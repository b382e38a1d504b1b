#include "loop/straggler.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int slowest(const double *ms, int world)
{
	int at = 0;

	for (int r = 1; r < world; r++)
		if (ms[r] > ms[at])
			at = r;
	return at;
}

/* The rank that is too slow in this step, or -1. */
static int find(struct straggler *s, const double *ms, int world, double *sorted, double *lost)
{
	int rank = slowest(ms, world);

	if (world < 2)
		return -1;
	memcpy(sorted, ms, (size_t)world * sizeof(*sorted));
	qsort(sorted, (size_t)world, sizeof(*sorted), compare);
	s->middle_ms = sorted[(world - 1) / 2];
	s->rank_ms = ms[rank];
	*lost = sorted[world - 1] - sorted[world - 2];
	return ms[rank] > STRAGGLER_FACTOR * s->middle_ms && ms[rank] > s->middle_ms + STRAGGLER_LEAST_MS ? rank : -1;
}

/* While there is one: it may go on, or have recovered. */
static enum straggler_news follow(struct straggler *s, int rank, double lost)
{
	if (rank == s->rank) {
		s->sound = 0;
		s->steps++;
		s->lost_ms += lost;
		return STRAGGLER_NOTHING;
	}
	if (++s->sound < STRAGGLER_STEPS)
		return STRAGGLER_NOTHING;
	s->slow = false;
	s->streak = 0;
	return STRAGGLER_OVER;
}

enum straggler_news straggler_step(struct straggler *s, uint64_t step, const double *ms, int world, double *scratch)
{
	double lost = 0;
	int rank = find(s, ms, world, scratch, &lost);

	if (s->slow)
		return follow(s, rank, lost);
	if (rank < 0 || (s->streak && rank != s->suspect)) {
		s->streak = 0;
		s->lost_ms = 0;
	}
	if (rank < 0)
		return STRAGGLER_NOTHING;
	if (!s->streak++)
		s->since = step;
	s->suspect = rank;
	s->lost_ms += lost;
	if (s->streak < STRAGGLER_STEPS)
		return STRAGGLER_NOTHING;
	s->slow = true;
	s->rank = rank;
	s->sound = 0;
	s->steps = (uint64_t)s->streak;
	return STRAGGLER_FOUND;
}
