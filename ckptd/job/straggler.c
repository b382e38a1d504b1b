#include "job/straggler.h"

#include "base/doubles.h"

#include <math.h>

enum { ALIKE = 4 }; /* a quarter of the median count of collectives more or less is another part in the job */

void straggler_forget(struct stragglers *s)
{
	if (s->epoch)
		*s = (struct stragglers){0};
}

/* ---- rounds ---------------------------------------------------------------------------------------------------- */

static void begin(struct stragglers *s, const struct straggler_sample *samples, uint64_t now)
{
	for (uint32_t r = 0; r < s->n; r++)
		s->ranks[r].from = samples[r];
	s->from_ns = now;
}

static bool went_back(const struct straggler_sample *from, const struct straggler_sample *to)
{
	return to->step < from->step || to->waited_ns < from->waited_ns || to->left < from->left;
}

enum round { ROUND_GOES_ON, ROUND_ENDED, ROUND_BROKEN };

static enum round look(const struct stragglers *s, const struct straggler_sample *samples, uint64_t now)
{
	enum round round = now - s->from_ns < STRAGGLER_ROUND_NS ? ROUND_GOES_ON : ROUND_ENDED;
	for (uint32_t r = 0; r < s->n; r++) {
		const struct straggler_sample *from = &s->ranks[r].from;
		if (went_back(from, &samples[r]))
			return ROUND_BROKEN;
		if (samples[r].step - from->step < STRAGGLER_STEPS)
			round = ROUND_GOES_ON;
	}
	return round;
}

/* ---- comparing ------------------------------------------------------------------------------------------------- */

static double median(double *values, uint32_t n)
{
	doubles_sort(values, n);
	return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/* How many are compared; sets `compared` and `own`. */
static uint32_t measure(struct stragglers *s, const struct straggler_sample *samples)
{
	double counts[WIRE_LOCAL_MAX];
	uint32_t n = 0;
	for (uint32_t r = 0; r < s->n; r++)
		counts[r] = (double)(samples[r].left - s->ranks[r].from.left);
	double middle = median(counts, s->n);
	for (uint32_t r = 0; r < s->n; r++) {
		struct straggler_rank *rank = &s->ranks[r];
		double count = (double)(samples[r].left - rank->from.left);
		double waited = (double)(samples[r].waited_ns - rank->from.waited_ns) / (double)s->round_ns;
		rank->compared = count > 0 && fabs(count - middle) <= middle / ALIKE;
		rank->own = waited < 1 ? 1 - waited : 0; /* it is the rank's own word */
		n += rank->compared;
	}
	return n;
}

/* The median and the largest of the own parts of the others. */
static double others(const struct stragglers *s, const struct straggler_rank *but, double *most)
{
	double own[WIRE_LOCAL_MAX];
	uint32_t n = 0;
	*most = 0;
	for (uint32_t r = 0; r < s->n; r++) {
		const struct straggler_rank *rank = &s->ranks[r];
		if (rank == but || !rank->compared)
			continue;
		*most = fmax(*most, rank->own);
		own[n++] = rank->own;
	}
	return median(own, n);
}

static double score(const struct straggler_rank *rank, double middle)
{
	if (rank->own - middle < STRAGGLER_LEAST)
		return fmin(log(rank->ratio), 0);
	return fmin(log(rank->ratio), STRAGGLER_MOST);
}

static void judge(struct stragglers *s, struct straggler_rank *rank, double x)
{
	rank->sum = fmin(fmax(rank->sum + x - STRAGGLER_SLACK, 0), STRAGGLER_LIMIT);
	if (rank->sum <= 0) {
		rank->late = false;
		rank->since_ns = 0;
		rank->lost_ns = 0;
		return;
	}
	if (!rank->since_ns)
		rank->since_ns = s->from_ns;
	rank->lost_ns += rank->cost * (double)s->round_ns;
	rank->late |= rank->sum >= STRAGGLER_LIMIT;
}

static void judge_all(struct stragglers *s, const struct straggler_sample *samples)
{
	static const double none = 1e-6; /* of the time: less cannot be told from nothing */
	uint32_t n = measure(s, samples);
	for (uint32_t r = 0; r < s->n; r++) {
		struct straggler_rank *rank = &s->ranks[r];
		double most = 0, x = 0;
		rank->compared = rank->compared && n > 1;
		rank->ratio = 1;
		rank->cost = 0;
		if (rank->compared) {
			double middle = others(s, rank, &most);
			rank->ratio = fmax(rank->own, none) / fmax(middle, none);
			rank->cost = fmax(rank->own - most, 0);
			x = score(rank, middle);
		}
		judge(s, rank, x);
	}
}

bool straggler_look(struct stragglers *s, uint32_t epoch, const struct straggler_sample *samples, uint32_t n,
		    uint64_t now)
{
	if (s->epoch != epoch || s->n != n) {
		*s = (struct stragglers){.n = n, .epoch = epoch};
		begin(s, samples, now);
		return false;
	}
	enum round round = look(s, samples, now);
	if (round == ROUND_GOES_ON)
		return false;
	s->round_ns = now - s->from_ns;
	bool judged = round == ROUND_ENDED && s->warm;
	if (judged) {
		judge_all(s, samples);
		s->rounds++;
	}
	s->warm |= round == ROUND_ENDED;
	begin(s, samples, now);
	return judged;
}
