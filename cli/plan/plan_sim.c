#include "plan/plan_sim.h"

#include "base/random.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { LOST_MAX = 4096, PENDING_MAX = 8, LOST_A_LOOK = 32 };

/* A node whose memory is gone until then. */
struct lost_node {
	uint64_t node;
	double until;
};

/* A save on its way: what has been computed, and when it counts. */
struct save {
	double done, captured, replicated, durable;
};

struct world {
	const struct plan_input *in;
	const struct plan_result *plan;
	bool baseline;
	uint64_t random;
	double now, end, done;         /* done: computation that stands, in seconds */
	double next_node, next_outage; /* failures */
	struct lost_node lost[LOST_MAX];
	unsigned nlost;
	struct save pending[PENDING_MAX]; /* not all safe yet; the oldest first */
	unsigned npending;
	double captured, replicated, durable; /* computation in the newest save of each level */
	double writing_until;
	uint64_t saves_of_memory;
	uint64_t looks; /* events, and what was looked at for them */
	struct plan_sim out;
};

/* In (0, 1]. */
static double draw(struct world *w)
{
	return ((double)(random_next(&w->random) >> 11) + 1) * 0x1p-53;
}

static double exponential(struct world *w, double mean)
{
	return isinf(mean) ? INFINITY : -log(draw(w)) * mean;
}

/* However often something happens, it comes to an end. */
static bool is_spent(const struct world *w)
{
	return w->looks >= PLAN_LOOKS_MAX;
}

static double next_failure(const struct world *w)
{
	return fmin(w->next_node, w->next_outage);
}

/* ---- saves --------------------------------------------------------------------------------------------------------- */

/* What has become safe by now. */
static void settle(struct world *w)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < w->npending; i++) {
		struct save *s = &w->pending[i];
		if (s->captured <= w->now)
			w->captured = fmax(w->captured, s->done);
		if (s->replicated <= w->now)
			w->replicated = fmax(w->replicated, s->done);
		if (s->durable <= w->now)
			w->durable = fmax(w->durable, s->done);
		if (s->captured > w->now || s->replicated > w->now || (!isinf(s->durable) && s->durable > w->now))
			w->pending[kept++] = *s;
	}
	w->npending = kept;
}

/* When more are under way than there are slots, the oldest that is only on its way to storage goes on all the same: it has its own slot. */
static void begin_save(struct world *w)
{
	const struct plan_result *p = w->plan;
	uint64_t every = (uint64_t)llround(fmin(p->storage.interval / p->memory.interval, PLAN_LOOKS_MAX));
	struct save s = {.done = w->done,
			 .captured = w->now + p->capture,
			 .replicated = w->now + p->capture + p->replicate,
			 .durable = INFINITY};
	w->out.saves++;
	if (++w->saves_of_memory >= every && w->writing_until <= w->now) {
		w->saves_of_memory = 0;
		w->writing_until = s.durable = w->now + p->capture + p->write;
	}
	settle(w);
	if (w->npending < PENDING_MAX)
		w->pending[w->npending++] = s;
}

/* ---- failures ------------------------------------------------------------------------------------------------------ */

static bool is_lost(struct world *w, uint64_t node)
{
	w->looks += w->nlost / LOST_A_LOOK;
	for (unsigned i = 0; i < w->nlost; i++)
		if (w->lost[i].node == node && w->lost[i].until > w->now)
			return true;
	return false;
}

static void lose_node(struct world *w, uint64_t node)
{
	unsigned kept = 0;
	w->looks += w->nlost / LOST_A_LOOK;
	for (unsigned i = 0; i < w->nlost; i++)
		if (w->lost[i].until > w->now)
			w->lost[kept++] = w->lost[i];
	w->nlost = kept;
	if (kept < LOST_MAX)
		w->lost[w->nlost++] = (struct lost_node){node, w->now + w->plan->remake};
}

/* Copies of a node are on the next ones. Some lost node has no holder left. */
static bool copies_are_gone(struct world *w)
{
	uint64_t nodes = (uint64_t)w->plan->nodes;
	w->looks += w->nlost / LOST_A_LOOK;
	for (unsigned i = 0; i < w->nlost; i++) {
		unsigned gone = 0;
		if (w->lost[i].until <= w->now)
			continue;
		for (unsigned c = 1; c <= w->in->copies; c++)
			gone += is_lost(w, (w->lost[i].node + c) % nodes);
		if (gone == w->in->copies)
			return true;
	}
	return false;
}

/* What the failure at this moment leaves to go on from. True: of memory. */
static bool strike(struct world *w)
{
	bool outage = w->next_outage <= w->next_node;
	w->out.failures++;
	w->looks++;
	if (outage)
		w->next_outage = w->now + exponential(w, w->in->mtbf_cluster);
	else
		w->next_node = w->now + exponential(w, w->in->mtbf_node / w->plan->nodes);
	if (w->baseline)
		return false;
	if (outage)
		return false;
	if (draw(w) <= w->in->soft)
		return true;
	lose_node(w, (uint64_t)(draw(w) * w->plan->nodes) % (uint64_t)w->plan->nodes);
	w->captured = w->replicated; /* what only the lost node had is of no use to the others */
	return w->in->copies && !copies_are_gone(w);
}

/* From the failure on until training goes on; others may come meanwhile. */
static void recover(struct world *w)
{
	double was = w->done, from = w->now, until;
	bool memory = true;
	do {
		settle(w);
		memory &= strike(w);
		if (!memory)
			w->captured = w->replicated = w->durable;
		until = w->now + (memory ? w->plan->memory.restart : w->plan->storage.restart);
		if (!w->in->spared && next_failure(w) < until && next_failure(w) < w->end && !is_spent(w))
			w->now = next_failure(w);
		else
			break;
	} while (true);
	w->npending = 0;
	w->writing_until = 0;
	w->done = memory ? w->captured : w->durable;
	w->captured = w->replicated = w->done; /* it stands in the memory of all nodes again */
	w->out.lost_work += was - w->done;
	w->out.from_memory += memory;
	w->out.from_storage += !memory;
	w->now = fmin(until, w->end);
	w->out.recovering += w->now - from;
	if (w->in->spared) {
		w->next_node += w->now - from;
		w->next_outage += w->now - from;
	}
}

/* ---- the run ------------------------------------------------------------------------------------------------------- */

/* Computes for an interval, then saves. A failure cuts both. */
static void work(struct world *w, double interval, double stall)
{
	double begin = w->now, stop = fmin(next_failure(w), w->end);
	bool whole = begin + interval <= stop; /* a difference of times would be rounded */
	w->now = whole ? begin + interval : stop;
	w->done += w->now - begin;
	w->looks++;
	if (!whole)
		return;
	if (!w->baseline)
		begin_save(w);
	begin = w->now;
	whole = begin + stall <= stop;
	w->now = whole ? begin + stall : stop;
	w->out.stalled += w->now - begin;
	if (w->baseline && whole) {
		w->out.saves++;
		w->durable = w->done;
	}
}

static struct plan_sim run(struct world *w, double interval, double stall)
{
	w->next_node = exponential(w, w->in->mtbf_node / w->plan->nodes);
	w->next_outage = exponential(w, w->in->mtbf_cluster);
	while (w->now < w->end && !is_spent(w)) {
		work(w, interval, stall);
		if (w->now < w->end && next_failure(w) <= w->now)
			recover(w);
	}
	double all = fmax(w->now, DBL_MIN); /* failures without end leave no time */
	w->out.seconds = w->now;
	w->out.goodput = w->done / all;
	w->out.stalled /= all;
	w->out.lost = w->out.lost_work / all;
	w->out.recovering /= all;
	return w->out;
}

struct plan_sim plan_simulate(const struct plan_input *in, const struct plan_result *plan, double seconds,
			      uint64_t seed)
{
	struct world w = {.in = in, .plan = plan, .random = seed, .end = seconds};
	return run(&w, plan->memory.interval, plan->stall);
}

struct plan_sim plan_simulate_baseline(const struct plan_input *in, const struct plan_result *plan, double seconds,
				       uint64_t seed)
{
	struct world w = {.in = in, .plan = plan, .random = seed, .end = seconds, .baseline = true};
	return run(&w, in->baseline, plan->write);
}
