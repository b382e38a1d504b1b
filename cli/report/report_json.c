#include "report/report.h"

#include "base/clock.h"

#include <math.h>

const char *const report_part_names[REPORT_PARTS] = {"detect", "decide", "gather",    "choose",
						     "fetch",  "load",   "first_step"};

/* To the microsecond; null: not known. */
static json_t *real(double value)
{
	return isfinite(value) ? json_real(round(value * 1000) / 1000) : json_null();
}

static json_t *share(double value)
{
	return isfinite(value) ? json_real(round(value * 1e6) / 1e6) : json_null();
}

static json_t *text(const char *value)
{
	return value && *value ? json_text(value) : json_null();
}

static json_t *whole(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static json_t *index_or_null(size_t index)
{
	return index == SIZE_MAX ? json_null() : whole(index);
}

/* From the beginning of the report. */
static json_t *at_ms(const struct report *r, uint64_t at)
{
	return at ? real(((double)at - (double)r->begin) / 1e6) : json_null();
}

/* null: the file says nothing of what it repeats. */
static json_t *compression(const struct report *r)
{
	if (!r->lasted_ms)
		return json_null();
	return json_pack("{s:o, s:o, s:o}", "lasted_s", real((double)r->lasted_ms / 1000), "planned",
			 real(report_compression_planned(r)), "measured", real(report_compression_measured(r)));
}

static json_t *campaign(const struct report *r)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o}",
			 "file", text(r->file), "node", text(r->node), "nodes", whole(r->nodes), "seed", whole(r->seed),
			 "ranks", whole(r->ranks), "faults", whole(r->planned), "left_out", whole(r->left_out),
			 "save_memory_every", whole(r->memory_every), "save_storage_every", whole(r->storage_every),
			 "hang_ms", whole(r->hang_ms), "compression", compression(r), "begun_ns", whole(r->begin),
			 "ended", r->ended, "exit", r->exit_code < 0 ? json_null() : json_integer(r->exit_code),
			 "params", text(r->params), "calm_params", text(r->calm_params), "unreadable_lines",
			 whole(r->unreadable));
}

static json_t *totals(const struct report *r)
{
	struct report_totals t = report_totals(r);
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "caused", whole(r->faults.n), "fired",
			 whole(t.fired), "recovered", whole(t.recovered), "recoveries", whole(t.recoveries),
			 "unexplained", whole(t.unexplained), "steps", whole(t.steps), "steps_lost",
			 whole(r->steps_lost), "durable", whole(r->durables));
}

static json_t *goodput(const struct report_goodput *g)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "elapsed_s", real(g->elapsed),
			 "starting_s", real(g->starting), "recovering_s", real(g->recovering), "saving_s",
			 real(g->saving), "repeated_s", real(g->repeated), "computing_s", real(g->computing), "step_s",
			 share(g->step_s), "measured", share(g->measured), "formula", share(g->formula), "simulated",
			 share(g->simulated), "spread", share(g->spread));
}

static json_t *fault(const struct report *r, const struct report_fault *f)
{
	json_t *found = json_null();
	if (f->found_by)
		found = json_pack("{s:s, s:o, s:o}", "by", f->found_by, "text", text(f->found_text), "after_ms",
				  real(report_found_ms(f)));
	return json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:s, s:o, s:o, s:o, s:o}", "index",
			 whole(f->index), "kind", f->kind, "cause", text(f->cause), "rank", whole(f->rank), "node",
			 whole(f->node), "at_ms", at_ms(r, f->at), "for_ms", f->for_ms ? whole(f->for_ms) : json_null(),
			 "fired", f->fired, "fired_after_ms", real(f->fired_ms), "text", text(f->text), "end",
			 report_end_name(f->end), "found", found, "back_after_ms", real(report_back_ms(f)), "recovery",
			 index_or_null(f->recovery), "steps_lost",
			 f->recovery == SIZE_MAX ? json_null() : whole(r->recoveries.at[f->recovery].steps_lost));
}

static json_t *recovery(const struct report *r, const struct report_recovery *one)
{
	json_t *parts = json_object();
	char key[32];
	for (int p = 0; p < REPORT_PARTS; p++) {
		snprintf(key, sizeof(key), "%s_ms", report_part_names[p]);
		json_object_set_new(parts, key, real(one->parts[p]));
	}
	return json_pack("{s:o, s:b, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "epoch",
			 whole(one->epoch), "start", one->start, "fault", index_or_null(one->fault), "began_ms",
			 at_ms(r, one->began), "seen_ms", at_ms(r, one->seen), "back_ms", at_ms(r, one->back),
			 "measured_by", one->by_daemon ? "daemon" : "ranks", "parts", parts, "step", whole(one->step),
			 "steps_lost", whole(one->steps_lost), "source", text(one->source), "reason", text(one->reason),
			 "left", text(one->left), "passed_over", text(one->passed_over));
}

static json_t *cause(const struct report_cause *c)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "cause", json_text(c->name),
			 "faults", whole(c->faults), "fired", whole(c->fired), "found", whole(c->found), "recovered",
			 whole(c->recovered), "found_p50_ms", real(c->found_ms[0]), "found_most_ms",
			 real(c->found_ms[1]), "back_p50_ms", real(c->back_ms[0]), "back_most_ms", real(c->back_ms[1]),
			 "steps_lost", whole(c->steps_lost), "recovering_s", real(c->lost_s));
}

static json_t *spread(const struct report_spread *s)
{
	json_t *bins = json_array();
	for (int i = 0; i < SPREAD_BINS; i++)
		json_array_append_new(bins, whole(s->bins[i]));
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name", s->name, "unit", s->unit, "count",
			 whole(s->n), "least", real(s->least), "p50", real(s->p50), "p90", real(s->p90), "p99",
			 real(s->p99), "most", real(s->most), "bins", bins);
}

/* ---- the timeline -------------------------------------------------------------------------------------------------- */

static json_t *daemon_intervals(const struct report *r)
{
	json_t *list = json_array();
	for (size_t i = 0; i < r->daemon.n; i++)
		if (!r->daemon.at[i].answers)
			json_array_append_new(list, json_pack("{s:o, s:o, s:o}", "node", whole(r->daemon.at[i].node),
							      "from_ms", at_ms(r, r->daemon.at[i].at), "to_ms",
							      at_ms(r, report_next_sign(r, i))));
	return list;
}

static json_t *timeline(const struct report *r)
{
	json_t *ranks = json_array(), *of[REPORT_RANKS_MAX];
	for (uint32_t rank = 0; rank < r->ranks; rank++) {
		const double *s = r->at[rank].seconds;
		of[rank] = json_array();
		json_array_append_new(ranks,
				      json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "rank", whole(rank), "node",
						whole(report_node_of(r, rank)), "starting_s", real(s[STATE_STARTING]),
						"computing_s", real(s[STATE_COMPUTING]), "saving_s",
						real(s[STATE_SAVING]), "recovering_s", real(s[STATE_RECOVERING]),
						"lost_s", real(s[STATE_LOST]), "intervals", of[rank]));
	}
	for (size_t i = 0; i < r->intervals.n; i++) {
		const struct report_interval *one = &r->intervals.at[i];
		json_array_append_new(of[one->rank],
				      json_pack("{s:s, s:o, s:o}", "state", report_state_name(one->state), "from_ms",
						at_ms(r, one->from), "to_ms", at_ms(r, one->to)));
	}
	return json_pack("{s:o, s:o}", "daemon_away", daemon_intervals(r), "ranks", ranks);
}

/* ---- the document -------------------------------------------------------------------------------------------------- */

json_t *report_document(const struct report *r, const struct report_spread spreads[REPORT_SPREADS])
{
	json_t *faults = json_array(), *recoveries = json_array(), *causes = json_array(), *list = json_array();
	for (size_t i = 0; i < r->faults.n; i++)
		json_array_append_new(faults, fault(r, &r->faults.at[i]));
	for (size_t i = 0; i < r->recoveries.n; i++)
		json_array_append_new(recoveries, recovery(r, &r->recoveries.at[i]));
	for (size_t i = 0; i < r->causes.n; i++)
		json_array_append_new(causes, cause(&r->causes.at[i]));
	for (int i = 0; i < REPORT_SPREADS; i++)
		json_array_append_new(list, spread(&spreads[i]));
	return json_pack("{s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "schema", JSON_SCHEMA, "command",
			 "report", "campaign", campaign(r), "totals", totals(r), "goodput", goodput(&r->goodput),
			 "invariants", r->invariants ? json_incref(r->invariants) : json_null(), "causes", causes,
			 "faults", faults, "recoveries", recoveries, "spreads", list, "timeline", timeline(r));
}
