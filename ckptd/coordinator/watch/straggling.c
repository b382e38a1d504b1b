#include "coordinator/watch/straggling.h"

#include "base/doubles.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum { ALIKE = 4 }; /* a quarter of the median count of collectives more or less is another part in the job */

/* ---- its memory ------------------------------------------------------------------------------------------------ */

void straggling_end(struct straggling *s)
{
	free(s->ranks);
	free(s->nodes);
	free(s->sorted);
	free(s->middle);
	free(s->its);
	*s = (struct straggling){0};
}

int straggling_begin(struct straggling *s, uint32_t epoch, uint32_t world, const uint32_t *owners, uint32_t nnodes)
{
	straggling_end(s);
	s->ranks = calloc(world, sizeof(*s->ranks));
	s->nodes = calloc(nnodes, sizeof(*s->nodes));
	s->sorted = calloc(world, sizeof(*s->sorted));
	s->middle = calloc(nnodes, sizeof(*s->middle));
	s->its = calloc(world, sizeof(*s->its));
	if (!s->ranks || !s->nodes || !s->sorted || !s->middle || !s->its) {
		straggling_end(s);
		return -ENOMEM;
	}
	s->epoch = epoch;
	s->world = world;
	s->nnodes = nnodes;
	for (uint32_t n = 0; n < nnodes; n++)
		s->nodes[n].first = world;
	for (uint32_t r = world; r-- > 0;) {
		struct straggling_node *n = &s->nodes[owners[r]];
		s->ranks[r].node = owners[r];
		s->ranks[r].next = n->first;
		n->first = r;
		n->ranks++;
	}
	return 0;
}

/* ---- rounds ---------------------------------------------------------------------------------------------------- */

void straggling_take(struct straggling *s, uint32_t rank, uint64_t node_ns, const struct straggling_sample *is)
{
	struct straggling_rank *r = &s->ranks[rank];
	struct straggling_node *n = &s->nodes[r->node];
	if (!n->from_ns)
		n->from_ns = node_ns;
	if (n->from_ns == node_ns)
		r->from = *is;
	n->to_ns = node_ns;
	r->to = *is;
}

static bool went_back(const struct straggling_rank *r)
{
	return r->to.step < r->from.step || r->to.waited_ns < r->from.waited_ns || r->to.left < r->from.left;
}

enum round { ROUND_GOES_ON, ROUND_ENDED, ROUND_BROKEN };

static enum round look_at_nodes(const struct straggling *s)
{
	enum round round = ROUND_ENDED;
	for (uint32_t i = 0; i < s->nnodes; i++) {
		const struct straggling_node *n = &s->nodes[i];
		if (n->ranks && n->to_ns < n->from_ns)
			return ROUND_BROKEN;
		if (n->ranks && (!n->from_ns || n->to_ns - n->from_ns < STRAGGLING_ROUND_NS))
			round = ROUND_GOES_ON;
	}
	return round;
}

static enum round look_at_ranks(const struct straggling *s)
{
	enum round round = ROUND_ENDED;
	for (uint32_t r = 0; r < s->world; r++) {
		if (went_back(&s->ranks[r]))
			return ROUND_BROKEN;
		if (s->ranks[r].to.step - s->ranks[r].from.step < STRAGGLING_STEPS)
			round = ROUND_GOES_ON;
	}
	return round;
}

static void begin_round(struct straggling *s, uint64_t now)
{
	for (uint32_t n = 0; n < s->nnodes; n++)
		s->nodes[n].from_ns = s->nodes[n].to_ns;
	for (uint32_t r = 0; r < s->world; r++)
		s->ranks[r].from = s->ranks[r].to;
	s->from_ns = now;
}

/* ---- measuring ------------------------------------------------------------------------------------------------- */

static double median(const double *sorted, uint32_t n)
{
	return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

/* Of all but one that has this value; there are two at least. */
static double median_but(const double *sorted, uint32_t n, double value)
{
	uint32_t low = 0, high = n - 1, a = (n - 2) / 2, b = (n - 1) / 2;
	while (low < high) {
		uint32_t at = low + (high - low) / 2;
		if (sorted[at] < value)
			low = at + 1;
		else
			high = at;
	}
	return (sorted[a + (a >= low)] + sorted[b + (b >= low)]) / 2;
}

static double count_of(const struct straggling_rank *r)
{
	return (double)(r->to.left - r->from.left);
}

static void measure_ranks(struct straggling *s)
{
	for (uint32_t r = 0; r < s->world; r++)
		s->sorted[r] = count_of(&s->ranks[r]);
	doubles_sort(s->sorted, s->world);
	double middle = median(s->sorted, s->world);
	s->nsorted = 0;
	for (uint32_t i = 0; i < s->world; i++) {
		struct straggling_rank *r = &s->ranks[i];
		const struct straggling_node *n = &s->nodes[r->node];
		double waited = (double)(r->to.waited_ns - r->from.waited_ns) / (double)(n->to_ns - n->from_ns);
		r->is.own = waited < 1 ? 1 - waited : 0; /* it is the rank's own word */
		r->is.compared = count_of(r) > 0 && fabs(count_of(r) - middle) <= middle / ALIKE;
		if (r->is.compared)
			s->sorted[s->nsorted++] = r->is.own;
	}
	doubles_sort(s->sorted, s->nsorted);
}

/* The own parts of each node lie together in `its`. */
static void gather(struct straggling *s)
{
	uint32_t at = 0;
	for (uint32_t i = 0; i < s->nnodes; i++) {
		struct straggling_node *n = &s->nodes[i];
		n->at = at;
		for (uint32_t r = n->first; r < s->world; r = s->ranks[r].next)
			if (s->ranks[r].is.compared)
				s->its[at++] = s->ranks[r].is.own;
		n->n = at - n->at;
	}
}

static void measure_nodes(struct straggling *s)
{
	gather(s);
	s->nmiddle = 0;
	for (uint32_t i = 0; i < s->nnodes; i++) {
		struct straggling_node *n = &s->nodes[i];
		double *its = s->its + n->at;
		doubles_sort(its, n->n);
		n->is.own = n->n ? its[(n->n - 1) / 2] : 0;
		n->most = n->n ? its[n->n - 1] : 0;
		if (n->n)
			s->middle[s->nmiddle++] = n->is.own;
	}
	doubles_sort(s->middle, s->nmiddle);
}

/* ---- judging --------------------------------------------------------------------------------------------------- */

/* Its own part with what is usual of the others, and the longest one that it has with the longest of those who are not it. Returns what the
 * round counts. */
static double compare(struct straggling_one *one, double usual, double most, double longest)
{
	static const double none = 1e-6; /* of the time: less cannot be told from nothing */
	one->ratio = fmax(one->own, none) / fmax(usual, none);
	one->cost = fmax(most - longest, 0);
	return fmin(log(one->ratio), one->own - usual < STRAGGLING_LEAST ? 0 : STRAGGLING_MOST);
}

static void add_up(struct straggling_one *one, double x, uint64_t from_ns, uint64_t now)
{
	one->sum = fmin(fmax(one->sum + x - STRAGGLING_SLACK, 0), STRAGGLING_LIMIT);
	if (one->sum <= 0) {
		one->late = false;
		one->since_ns = 0;
		one->lost_ns = 0;
		return;
	}
	if (!one->since_ns)
		one->since_ns = from_ns;
	one->lost_ns += one->cost * (double)(now - from_ns);
	one->late |= one->sum >= STRAGGLING_LIMIT;
}

static void judge_rank(struct straggling *s, struct straggling_rank *r, uint64_t now)
{
	const struct straggling_node *n = &s->nodes[r->node];
	double x = 0;
	r->is.compared = r->is.compared && s->nsorted > 1;
	r->is.ratio = 1;
	r->is.cost = 0;
	if (r->is.compared) {
		double middle = median_but(s->sorted, s->nsorted, r->is.own);
		if (n->n > 1)
			middle = fmax(middle, median_but(s->its + n->at, n->n, r->is.own));
		bool first = r->is.own >= s->sorted[s->nsorted - 1];
		x = compare(&r->is, middle, r->is.own, s->sorted[s->nsorted - (first ? 2 : 1)]);
	}
	add_up(&r->is, x, s->from_ns, now);
}

static void judge_node(struct straggling *s, struct straggling_node *n, double longest, uint64_t now)
{
	double x = 0;
	n->is.compared = n->n > 1 && s->nmiddle > 1;
	n->is.ratio = 1;
	n->is.cost = 0;
	if (n->is.compared)
		x = compare(&n->is, median_but(s->middle, s->nmiddle, n->is.own), n->most, longest);
	add_up(&n->is, x, s->from_ns, now);
}

static void judge_all(struct straggling *s, uint64_t now)
{
	double most = 0, second = 0; /* that nodes have */
	for (uint32_t i = 0; i < s->world; i++)
		judge_rank(s, &s->ranks[i], now);
	for (uint32_t i = 0; i < s->nnodes; i++) {
		second = fmax(second, fmin(most, s->nodes[i].most));
		most = fmax(most, s->nodes[i].most);
	}
	for (uint32_t i = 0; i < s->nnodes; i++)
		judge_node(s, &s->nodes[i], s->nodes[i].most < most ? most : second, now);
}

bool straggling_judge(struct straggling *s, uint64_t now)
{
	enum round round = s->epoch ? look_at_nodes(s) : ROUND_GOES_ON;
	if (round == ROUND_ENDED)
		round = look_at_ranks(s);
	if (round == ROUND_GOES_ON)
		return false;
	bool judged = round == ROUND_ENDED && s->warm;
	if (judged) {
		measure_ranks(s);
		measure_nodes(s);
		judge_all(s, now);
		s->rounds++;
	}
	s->warm |= round == ROUND_ENDED;
	begin_round(s, now);
	return judged;
}
