#include "report/report.h"

#include "base/bytes.h"
#include "base/interval.h"
#include "plan/plan_report.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#define LONG_ENOUGH 200.0 /* failures to simulate, so that the mean says something */
#define SAVES_MOST 1e6    /* of a simulation */

uint64_t report_stopped(const struct report *r, const struct report_segment *s)
{
	bool newest = s == r->segments.at + r->segments.n - 1;
	return max_u64(s->stopped ? s->stopped : newest ? r->last : s->last, s->started);
}

static double seconds(uint64_t from, uint64_t to)
{
	return to > from ? (double)(to - from) / 1e9 : 0;
}

/* Recoveries are in the order of their epochs, and so of their times: what two of them share counts once. */
static double recovering(const struct report *r)
{
	double sum = 0;
	uint64_t until = 0;
	for (size_t i = 0; i < r->recoveries.n; i++) {
		const struct report_recovery *one = &r->recoveries.at[i];
		if (one->start)
			continue;
		sum += seconds(max_u64(one->began, until), one->back);
		until = max_u64(until, one->back);
	}
	return sum;
}

static double starting(const struct report *r)
{
	double sum = 0;
	size_t s = 0;
	for (size_t i = 0; i < r->recoveries.n && s < r->segments.n; i++)
		if (r->recoveries.at[i].start)
			sum += seconds(r->segments.at[s++].started, r->recoveries.at[i].back);
	for (; s < r->segments.n; s++) /* it never came to a step */
		sum += seconds(r->segments.at[s].started, report_stopped(r, &r->segments.at[s]));
	return sum;
}

/* Ranks are kept waiting side by side: the mean of them. */
static double saving(const struct report *r)
{
	double sum = 0;
	for (size_t i = 0; i < r->stalls.n; i++)
		sum += (double)r->stalls.at[i].ms / 1000;
	return sum / r->ranks;
}

/* ---- the model of `ckpt plan` -------------------------------------------------------------------------------------- */

/* The job as the model has it: what is lost comes from memory, and nothing fails while it comes, since a campaign waits. Its numbers are those
 * that were measured: a recovery takes as long as the mean of all, whether a rank or a node was lost. */
static struct plan_input input(const struct report *r, const struct plan_spans *spans, size_t losses)
{
	const struct report_goodput *g = &r->goodput;
	struct plan_input in = plan_defaults();
	double saves = (double)r->stalls.n / r->ranks;
	in.gpus = in.gpus_per_node = r->ranks;
	in.copies = 0;
	in.soft = 1;
	in.state = spans->bytes;
	in.mtbf_cluster = INFINITY;
	in.spared = true;
	in.mtbf_node = (g->elapsed - g->starting - g->recovering) / (double)losses;
	in.capture_bandwidth = in.state / in.gpus / fmax(spans->capture, 1e-6);
	in.store_bandwidth = in.state / fmax(spans->write, 1e-6);
	in.fabric_bandwidth = INFINITY; /* the way of the state is part of the restart here */
	in.stall = saves > 0 ? fmax(g->saving / saves, 1e-9) : 1e-9;
	in.detect = 0;
	in.restart = g->recovering / (double)losses;
	in.step = g->step_s;
	in.overhead = 1;
	return in;
}

static void simulate(struct report_goodput *g, const struct plan_input *in, const struct plan_result *plan)
{
	struct plan_sim sims[PLAN_SEEDS];
	double between = in->mtbf_node + in->restart,
	       length = fmin(fmax(g->elapsed - g->starting, LONG_ENOUGH * between), SAVES_MOST * plan->memory.interval);
	for (int i = 0; i < PLAN_SEEDS; i++)
		sims[i] = plan_simulate(in, plan, length, (uint64_t)i + 1);
	g->simulated = plan_mean(sims, &g->spread);
}

/* Both parts of the span log, as far as they are there: of the first node, which captures and writes as much as each other one. */
static int read_spans(const struct report *r, struct plan_spans *spans)
{
	char names[2][REPORT_TEXT_MAX + REPORT_NAME_MAX], file[REPORT_NAME_MAX];
	const char *paths[2];
	unsigned n = 0;
	for (int i = 0; i < 2; i++) {
		snprintf(names[i], sizeof(names[i]), "%s/%s", r->folder,
			 report_node_file(r, 0, i ? "spans" : "spans.1", file));
		if (!access(names[i], F_OK))
			paths[n++] = names[i];
	}
	int rc = plan_spans_read(paths, n, spans, NULL);
	spans->bytes *= r->nodes;
	return rc;
}

/* With the intervals that the campaign had, not those that the model would choose. */
static void compare(struct report *r, size_t losses)
{
	struct report_goodput *g = &r->goodput;
	struct plan_spans spans;
	if (!losses || !(g->step_s > 0) || !(g->elapsed > g->starting + g->recovering) || !r->memory_every ||
	    read_spans(r, &spans))
		return;
	if (!(spans.bytes > 0) || !(spans.capture >= 0) || !(spans.write >= 0))
		return;
	struct plan_input in = input(r, &spans, losses);
	struct plan_result plan = plan_compute(&in);
	plan.memory.interval = (double)r->memory_every * g->step_s;
	plan.storage.interval = plan.memory.interval * (double)max_u64(r->storage_every / r->memory_every, 1);
	g->formula = interval_goodput_spared(plan.memory.interval, plan.stall, plan.memory.restart + plan.capture,
					     plan.memory.mtbf);
	simulate(g, &in, &plan);
}

/* ---- the whole ----------------------------------------------------------------------------------------------------- */

void report_count_time(struct report *r)
{
	struct report_goodput *g = &r->goodput;
	size_t losses = 0;
	*g = (struct report_goodput){.formula = NAN, .simulated = NAN, .spread = NAN, .measured = NAN};
	for (size_t i = 0; i < r->segments.n; i++)
		g->elapsed += seconds(r->segments.at[i].started, report_stopped(r, &r->segments.at[i]));
	for (size_t i = 0; i < r->recoveries.n; i++) {
		r->steps_lost += r->recoveries.at[i].steps_lost;
		losses += !r->recoveries.at[i].start;
	}
	g->starting = fmin(starting(r), g->elapsed);
	g->recovering = fmin(recovering(r), g->elapsed - g->starting);
	g->saving = fmin(saving(r), g->elapsed - g->starting - g->recovering);
	double computed = g->elapsed - g->starting - g->recovering - g->saving,
	       steps = (double)(r->step + r->steps_lost);
	g->step_s = steps > 0 ? computed / steps : 0;
	g->repeated = (double)r->steps_lost * g->step_s;
	g->computing = computed - g->repeated;
	if (g->elapsed > g->starting)
		g->measured = g->computing / (g->elapsed - g->starting);
	compare(r, losses);
}
