#include "plan/plan_model.h"

#include "base/interval.h"

#include <math.h>
#include <stdlib.h>

#define SLOTS_OWN 3  /* of an arena, at least */
#define SLOTS_COPY 2 /* per copy that is held */

struct plan_input plan_defaults(void)
{
	return (struct plan_input){.gpus_per_node = 8,
				   .mtbf_cluster = INTERVAL_OUTAGE_MTBF,
				   .soft = INTERVAL_SOFT,
				   .copies = 1,
				   .fabric_bandwidth = 40e9,
				   .capture_bandwidth = 40e9,
				   .detect = 5,
				   .restart = 60,
				   .step = 5,
				   .storage_least = 0,
				   .storage_most = 3600,
				   .overhead = 0.05,
				   .baseline = 1800};
}

/* Failures that memory cannot serve: a node and all holders of its copies within the time in which they are made anew; outages. */
static double storage_rate(const struct plan_input *in, const struct plan_result *r)
{
	double rate = r->nodes * (1 - in->soft) / in->mtbf_node;
	double again = 1 - exp(-r->remake * (1 - in->soft) / in->mtbf_node);
	for (unsigned i = 0; i < in->copies; i++)
		rate *= fmin(again * (i + 1 < in->copies ? 1 : 2), 1); /* whichever of the last two is lost first */
	return rate + 1 / in->mtbf_cluster;
}

static void times(const struct plan_input *in, struct plan_result *r)
{
	r->nodes = ceil(in->gpus / in->gpus_per_node);
	r->node_state = in->state / r->nodes;
	r->capture = in->state / in->gpus / in->capture_bandwidth;
	r->stall = in->stall > 0 ? in->stall : r->capture;
	r->replicate = in->copies * r->node_state / in->fabric_bandwidth;
	r->write = in->state / in->store_bandwidth;
	r->read = r->write;
	r->fetch = r->node_state / in->fabric_bandwidth;
	r->remake = in->detect + in->restart + r->fetch + r->replicate;
}

static void take(struct plan_tier *t, double cost, double most, const struct interval_least *least, unsigned n)
{
	struct interval i = interval_choose(cost, t->mtbf, most, least, n);
	t->young = interval_young(cost, t->mtbf);
	t->daly = interval_daly(cost, t->mtbf);
	t->interval = i.seconds;
	t->bound = i.bound;
}

static void choose(const struct plan_input *in, struct plan_result *r)
{
	struct plan_tier *m = &r->memory, *s = &r->storage;
	const struct interval_least of_memory[] = {
		{r->stall / in->overhead, "overhead"}, {r->capture + r->replicate, "fabric"}, {in->step, "step"}};
	take(m, r->stall, INFINITY, of_memory, 3);
	m->interval = interval_whole(m->interval, in->step);
	const struct interval_least of_storage[] = {
		{in->storage_least, "least"}, {r->write, "store"}, {m->interval, "memory"}};
	take(s, r->stall, in->storage_most, of_storage, 3);
	s->interval = interval_whole(s->interval, m->interval);
}

/* When a save counts: for soft failures once it is captured, for the others once its copies are there. */
static double until_safe(const struct plan_input *in, const struct plan_result *r)
{
	return r->capture + (1 - in->soft) * r->replicate;
}

double plan_goodput_at(const struct plan_input *in, const struct plan_result *r, double interval)
{
	double restart = r->memory.restart + until_safe(in, r);
	return interval_goodput(interval, r->stall, restart, r->memory.mtbf) * r->storage.goodput;
}

double plan_baseline_at(const struct plan_input *in, const struct plan_result *r, double interval)
{
	double restart = in->detect + in->restart + r->read;
	return interval_goodput(interval, r->write, restart, INTERVAL_DAY / r->failures);
}

static void tiers(const struct plan_input *in, struct plan_result *r)
{
	double rate = r->nodes / in->mtbf_node + 1 / in->mtbf_cluster, storage = storage_rate(in, r);
	r->failures = rate * INTERVAL_DAY;
	r->storage.mtbf = 1 / storage;
	r->memory.mtbf = 1 / fmax(rate - storage, 1e-30);
	if (!in->copies) /* the loss of a node is not served by memory */
		r->memory.mtbf = in->soft > 0 ? in->mtbf_node / (r->nodes * in->soft) : INFINITY;
	choose(in, r);
	double common = in->detect + in->restart;
	r->memory.restart = common + r->fetch;
	r->storage.restart = common + r->read;
	r->memory.lost = r->memory.interval / 2 + until_safe(in, r);
	r->storage.lost = r->storage.interval / 2 + r->write;
	r->memory.goodput =
		interval_goodput(r->memory.interval, r->stall, r->memory.restart + until_safe(in, r), r->memory.mtbf);
	r->storage.goodput = interval_goodput(r->storage.interval, 0, r->storage.restart + r->write, r->storage.mtbf);
	r->goodput = r->memory.goodput * r->storage.goodput;
}

struct plan_result plan_compute(const struct plan_input *in)
{
	struct plan_result r = {0};
	times(in, &r);
	tiers(in, &r);
	r.host_memory = (SLOTS_OWN + SLOTS_COPY * in->copies) * r.node_state;
	r.fabric = in->copies * r.node_state / r.memory.interval;
	r.store = in->state / r.storage.interval;
	r.baseline_goodput = plan_baseline_at(in, &r, in->baseline);
	r.cost_day = (1 - r.goodput) * in->gpus * 24 * in->price;
	r.baseline_cost_day = (1 - r.baseline_goodput) * in->gpus * 24 * in->price;
	return r;
}

static int by_goodput(const void *a, const void *b)
{
	double x = ((const struct plan_change *)a)->goodput, y = ((const struct plan_change *)b)->goodput;
	return x < y ? 1 : x > y ? -1 : 0;
}

void plan_changes(const struct plan_input *in, struct plan_change out[PLAN_CHANGES])
{
	struct plan_input half_restart = *in, half_detect = *in, more_copies = *in, more_store = *in, more_fabric = *in,
			  half_stall = *in;
	double now = plan_compute(in).goodput;
	half_restart.restart /= 2;
	half_detect.detect /= 2;
	more_copies.copies++;
	more_store.store_bandwidth *= 2;
	more_fabric.fabric_bandwidth *= 2;
	half_stall.stall = plan_compute(in).stall / 2;
	out[0] = (struct plan_change){"half the time to restart", plan_compute(&half_restart).goodput - now};
	out[1] = (struct plan_change){"half the time to see a failure", plan_compute(&half_detect).goodput - now};
	out[2] = (struct plan_change){"one more copy", plan_compute(&more_copies).goodput - now};
	out[3] = (struct plan_change){"twice the bandwidth of the store", plan_compute(&more_store).goodput - now};
	out[4] = (struct plan_change){"twice the bandwidth of the fabric", plan_compute(&more_fabric).goodput - now};
	out[5] = (struct plan_change){"half the stall of a save", plan_compute(&half_stall).goodput - now};
	qsort(out, PLAN_CHANGES, sizeof(out[0]), by_goodput);
}
