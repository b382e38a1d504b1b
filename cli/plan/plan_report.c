#include "plan/plan_report.h"

#include "plan/plan_quantity.h"

#include <math.h>

double plan_mean(const struct plan_sim *sims, double *spread)
{
	double sum = 0, least = 1, most = 0;
	for (int i = 0; i < PLAN_SEEDS; i++) {
		sum += sims[i].goodput;
		least = fmin(least, sims[i].goodput);
		most = fmax(most, sims[i].goodput);
	}
	*spread = (most - least) / 2;
	return sum / PLAN_SEEDS;
}

/* ---- tables -------------------------------------------------------------------------------------------------------- */

static void print_tier(struct table *t, const char *name, const struct plan_tier *tier)
{
	char a[QUANTITY_TEXT_MAX];
	table_cell(t, TONE_PLAIN, "%s", name);
	table_cell(t, TONE_PLAIN, "%s", quantity_time_text(tier->mtbf, a));
	table_cell(t, TONE_PLAIN, "%s", quantity_time_text(tier->young, a));
	table_cell(t, TONE_PLAIN, "%s", quantity_time_text(tier->daly, a));
	table_cell(t, TONE_GOOD, "%s", quantity_time_text(tier->interval, a));
	table_cell(t, TONE_PLAIN, "%s", tier->bound);
	table_cell(t, TONE_PLAIN, "%s", quantity_time_text(tier->lost, a));
	table_cell(t, TONE_PLAIN, "%s", quantity_time_text(tier->restart, a));
}

static void print_tiers(const struct plan_result *r)
{
	static const struct column columns[] = {{"TIER", ALIGN_LEFT},       {"MTBF", ALIGN_RIGHT},
						{"YOUNG", ALIGN_RIGHT},     {"DALY", ALIGN_RIGHT},
						{"INTERVAL", ALIGN_RIGHT},  {"DECIDED BY", ALIGN_LEFT},
						{"LOST WORK", ALIGN_RIGHT}, {"RESTART", ALIGN_RIGHT}};
	struct table *t = table_new(columns, 8);
	print_tier(t, "memory", &r->memory);
	print_tier(t, "storage", &r->storage);
	table_print(t);
}

static void print_needs(const struct plan_result *r)
{
	char a[QUANTITY_TEXT_MAX], b[QUANTITY_TEXT_MAX], c[QUANTITY_TEXT_MAX];
	out(TONE_PLAIN, "\nstall per save: %s; copies are there after %s; on storage after %s\n",
	    quantity_time_text(r->stall, a), quantity_time_text(r->capture + r->replicate, b),
	    quantity_time_text(r->capture + r->write, c));
	out(TONE_PLAIN, "host memory per node: %s; fabric per node: %s/s; store: %s/s\n",
	    quantity_bytes_text(r->host_memory, a), quantity_bytes_text(r->fabric, b),
	    quantity_bytes_text(r->store, c));
}

static void row(struct table *t, const char *name, double formula, const struct plan_sim *sims, double cost, bool money)
{
	double spread, mean = plan_mean(sims, &spread);
	table_cell(t, TONE_PLAIN, "%s", name);
	table_cell(t, TONE_PLAIN, "%.2f%%", 100 * formula);
	table_cell(t, TONE_PLAIN, "%.2f%% ±%.2f", 100 * mean, 100 * spread);
	table_cell(t, TONE_PLAIN, "%.2f%%", 100 * sims[0].stalled);
	table_cell(t, TONE_PLAIN, "%.2f%%", 100 * sims[0].lost);
	table_cell(t, TONE_PLAIN, "%.2f%%", 100 * sims[0].recovering);
	if (money)
		table_cell(t, TONE_PLAIN, "%.0f", cost);
}

/* The shortest of the seeds. */
static double simulated(const struct plan_sim *sims)
{
	double least = sims[0].seconds;
	for (int i = 1; i < PLAN_SEEDS; i++)
		least = fmin(least, sims[i].seconds);
	return least;
}

static void print_short(const char *name, const struct plan_report *p, const struct plan_sim *sims)
{
	char a[QUANTITY_TEXT_MAX], b[QUANTITY_TEXT_MAX];
	if (simulated(sims) < p->days * PLAN_DAY)
		out(TONE_WARN, "%s: simulated for %s only, not %s: more than %d events\n", name,
		    quantity_time_text(simulated(sims), a), quantity_time_text(p->days * PLAN_DAY, b), PLAN_LOOKS_MAX);
}

static void print_goodput(const struct plan_report *p)
{
	static const struct column columns[] = {{"GOODPUT", ALIGN_LEFT},    {"FORMULA", ALIGN_RIGHT},
						{"SIMULATED", ALIGN_RIGHT}, {"STALLS", ALIGN_RIGHT},
						{"LOST", ALIGN_RIGHT},      {"RECOVERING", ALIGN_RIGHT},
						{"COST/DAY", ALIGN_RIGHT}};
	char a[QUANTITY_TEXT_MAX], name[64];
	bool money = p->in.price > 0;
	struct table *t = table_new(columns, money ? 7 : 6);
	out(TONE_PLAIN, "\n");
	row(t, "this plan", p->result.goodput, p->sims, p->result.cost_day, money);
	snprintf(name, sizeof(name), "synchronous, every %s", quantity_time_text(p->in.baseline, a));
	row(t, name, p->result.baseline_goodput, p->baseline, p->result.baseline_cost_day, money);
	table_print(t);
	print_short("this plan", p, p->sims);
	print_short("synchronous", p, p->baseline);
	if (money)
		out(TONE_PLAIN, "saved: %.0f a day\n", p->result.baseline_cost_day - p->result.cost_day);
}

static void print_changes(const struct plan_change *changes)
{
	static const struct column columns[] = {{"WHAT WOULD PAY", ALIGN_LEFT}, {"POINTS", ALIGN_RIGHT}};
	struct table *t = table_new(columns, 2);
	out(TONE_PLAIN, "\n");
	for (int i = 0; i < PLAN_CHANGES; i++) {
		table_cell(t, TONE_PLAIN, "%s", changes[i].what);
		table_cell(t, TONE_PLAIN, "%+.3f", 100 * changes[i].goodput);
	}
	table_print(t);
}

void plan_print(const struct plan_report *p)
{
	char a[QUANTITY_TEXT_MAX], b[QUANTITY_TEXT_MAX];
	out(TONE_PLAIN, "%.0f GPUs on %.0f nodes, state %s, %u %s; %.2f failures a day\n", p->in.gpus, p->result.nodes,
	    quantity_bytes_text(p->in.state, a), p->in.copies, p->in.copies == 1 ? "copy" : "copies",
	    p->result.failures);
	if (p->spans)
		out(TONE_PLAIN, "measured: %lu saves and %lu recoveries in %s\n", (unsigned long)p->spans->saves,
		    (unsigned long)p->spans->recoveries, quantity_time_text(p->spans->seconds, b));
	out(TONE_PLAIN, "\n");
	print_tiers(&p->result);
	print_needs(&p->result);
	print_goodput(p);
	print_changes(p->changes);
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------- */

static json_t *real(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

static json_t *tier_json(const struct plan_tier *t)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o}", "mtbf_s", real(t->mtbf), "young_s", real(t->young),
			 "daly_s", real(t->daly), "interval_s", real(t->interval), "bound", t->bound, "lost_s",
			 real(t->lost), "restart_s", real(t->restart), "goodput", real(t->goodput));
}

static json_t *goodput_json(double formula, const struct plan_sim *sims, double cost)
{
	double spread, mean = plan_mean(sims, &spread);
	uint64_t failures = 0, memory = 0, storage = 0;
	for (int i = 0; i < PLAN_SEEDS; i++) {
		failures += sims[i].failures;
		memory += sims[i].from_memory;
		storage += sims[i].from_storage;
	}
	return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:f}", "formula", formula, "simulated",
			 mean, "spread", spread, "simulated_s", simulated(sims), "stalled", sims[0].stalled, "lost",
			 sims[0].lost, "recovering", sims[0].recovering, "failures", (json_int_t)failures,
			 "from_memory", (json_int_t)memory, "from_storage", (json_int_t)storage, "cost_day", cost);
}

static json_t *input_json(const struct plan_input *in)
{
	return json_pack("{s:f, s:f, s:f, s:o, s:o, s:f, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "gpus",
			 in->gpus, "gpus_per_node", in->gpus_per_node, "state", in->state, "mtbf_node_s",
			 real(in->mtbf_node), "mtbf_cluster_s", real(in->mtbf_cluster), "soft", in->soft, "copies",
			 (int)in->copies, "store_bandwidth", in->store_bandwidth, "fabric_bandwidth",
			 in->fabric_bandwidth, "capture_bandwidth", in->capture_bandwidth, "detect_s", in->detect,
			 "restart_s", in->restart, "step_s", in->step, "price", in->price, "baseline_s", in->baseline,
			 "overhead", in->overhead);
}

json_t *plan_json(const struct cli *cli, const struct plan_report *p)
{
	const struct plan_result *r = &p->result;
	json_t *doc = json_document(cli), *changes = json_array();
	for (int i = 0; i < PLAN_CHANGES; i++)
		json_array_append_new(
			changes, json_pack("{s:s, s:f}", "what", p->changes[i].what, "goodput", p->changes[i].goodput));
	json_object_set_new(doc, "input", input_json(&p->in));
	json_object_set_new(doc, "memory", tier_json(&r->memory));
	json_object_set_new(doc, "storage", tier_json(&r->storage));
	json_object_set_new(doc, "needs",
			    json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "stall_s", r->stall, "replicated_s",
				      r->capture + r->replicate, "durable_s", r->capture + r->write, "host_memory",
				      r->host_memory, "fabric", r->fabric, "store", r->store));
	json_object_set_new(doc, "failures_day", real(r->failures));
	json_object_set_new(doc, "days", real(p->days));
	json_object_set_new(doc, "plan", goodput_json(r->goodput, p->sims, r->cost_day));
	json_object_set_new(doc, "baseline", goodput_json(r->baseline_goodput, p->baseline, r->baseline_cost_day));
	json_object_set_new(doc, "changes", changes);
	return doc;
}
