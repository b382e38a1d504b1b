#include "report/report_html.h"

#include "frame/markup.h"
#include "report/report_chart.h"

#include <math.h>

/* From the start of the job. */
static void cell_at(FILE *f, const struct report *r, uint64_t at)
{
	markup_ms(f, at >= r->begin ? (double)(at - r->begin) / 1e6 : NAN);
}

static void cell_words(FILE *f, const char *text)
{
	markup(f, "<td class=\"words\">");
	markup_text(f, "%s", text);
	markup(f, "</td>");
}

static void cell_share(FILE *f, double share)
{
	if (isnan(share))
		markup_number(f, "–");
	else
		markup_number(f, "%.1f%%", 100 * share);
}

/* All nodes have the same store. */
static void cell_node(FILE *f, const struct report *r, const struct report_fault *one)
{
	if (r->nodes > 1 && one->entry->target != FAULT_AT_CHECKPOINT)
		markup_number(f, "node-%u", one->node);
	else
		markup_number(f, "–");
}

static void row_fault(FILE *f, const struct report *r, const struct report_fault *one)
{
	markup(f, "<tr>");
	markup_number(f, "%lu", (unsigned long)one->index);
	cell_at(f, r, one->at);
	markup_cell(f, "%s", one->kind);
	markup_cell(f, "%s", *one->cause ? one->cause : "–");
	if (one->entry && one->entry->target != FAULT_AT_RANK)
		cell_node(f, r, one);
	else
		markup_number(f, "%u", one->rank);
	markup_cell(f, "%s", report_end_name(one->end));
	markup_cell(f, "%s", one->found_by ? one->found_by : "–");
	markup_ms(f, report_found_ms(one));
	markup_ms(f, report_back_ms(one));
	if (one->recovery == SIZE_MAX)
		markup_number(f, "–");
	else
		markup_number(f, "%lu", (unsigned long)r->recoveries.at[one->recovery].steps_lost);
	cell_words(f, *one->found_text ? one->found_text : one->text);
	markup(f, "</tr>\n");
}

void html_faults(FILE *f, const struct report *r)
{
	static const char *const columns[] = {">#",          ">At",         "Fault",        "Cause",
					      ">Rank",       "Became",      "Found by",     ">Found after",
					      ">Back after", ">Steps lost", "What it said", NULL};
	markup_table(f, "Faults, in the order in which they were caused", columns);
	for (size_t i = 0; i < r->faults.n; i++)
		row_fault(f, r, &r->faults.at[i]);
	markup_table_end(f);
}

/* Its fault, or that it is a start. */
static void cell_fault(FILE *f, const struct report *r, const struct report_recovery *one)
{
	if (one->start)
		markup_cell(f, "start of the job");
	else if (one->fault == SIZE_MAX)
		markup_cell(f, "none known");
	else
		markup_cell(f, "%lu: %s", (unsigned long)r->faults.at[one->fault].index, r->faults.at[one->fault].kind);
}

static void row_recovery(FILE *f, const struct report *r, const struct report_recovery *one)
{
	markup(f, "<tr>");
	markup_number(f, "%u", one->epoch);
	cell_at(f, r, one->began);
	cell_fault(f, r, one);
	markup(f, "<td>");
	chart_recovery(f, one);
	markup(f, "</td>");
	markup_ms(f, report_total_ms(one));
	markup_number(f, "%lu", (unsigned long)one->step);
	markup_number(f, "%lu", (unsigned long)one->steps_lost);
	markup_cell(f, "%s", *one->source ? one->source : "–");
	cell_words(f, *one->left && (!*one->reason || report_names_cause(one->left)) ? one->left : one->reason);
	markup(f, "</tr>\n");
}

void html_recoveries(FILE *f, const struct report *r)
{
	static const char *const columns[] = {">Epoch", ">Began",      "Fault", "Parts", ">Took",
					      ">Step",  ">Steps lost", "From",  "Why",   NULL};
	markup_table(f, "How the job came into each epoch", columns);
	for (size_t i = 0; i < r->recoveries.n; i++)
		row_recovery(f, r, &r->recoveries.at[i]);
	markup_table_end(f);
}

void html_causes(FILE *f, const struct report *r)
{
	static const char *const columns[] = {"Cause",      ">Faults",      ">Fired",      ">Found",
					      ">Recovered", ">Found after", ">at most",    ">Back after",
					      ">at most",   ">Steps lost",  ">Recovering", NULL};
	markup_table(f, "Faults by cause; times are medians, from the fault on", columns);
	for (size_t i = 0; i < r->causes.n; i++) {
		const struct report_cause *c = &r->causes.at[i];
		markup(f, "<tr>");
		markup_cell(f, "%s", c->name);
		markup_number(f, "%zu", c->faults);
		markup_number(f, "%zu", c->fired);
		markup_number(f, "%zu", c->found);
		markup_number(f, "%zu", c->recovered);
		markup_ms(f, c->found_ms[0]);
		markup_ms(f, c->found_ms[1]);
		markup_ms(f, c->back_ms[0]);
		markup_ms(f, c->back_ms[1]);
		markup_number(f, "%lu", (unsigned long)c->steps_lost);
		markup_ms(f, c->lost_s * 1000);
		markup(f, "</tr>\n");
	}
	markup_table_end(f);
}

void html_ranks(FILE *f, const struct report *r)
{
	static const char *const columns[] = {">Rank",       ">Computing", ">Saving", ">Starting",
					      ">Recovering", ">Lost",      NULL};
	markup_table(f, "What each rank did", columns);
	for (uint32_t rank = 0; rank < r->ranks; rank++) {
		markup(f, "<tr>");
		markup_number(f, "%u", rank);
		for (int s = STATE_COMPUTING; s < REPORT_STATES; s++)
			markup_ms(f, r->at[rank].seconds[s] * 1000);
		markup(f, "</tr>\n");
	}
	markup_table_end(f);
}

void html_goodput(FILE *f, const struct report_goodput *g)
{
	static const char *const columns[] = {"Part", ">Time", ">Share", NULL};
	const struct {
		const char *name;
		double seconds;
	} rows[] = {{"steps that stood", g->computing}, {"steps done again", g->repeated}, {"saving", g->saving},
		    {"recovering", g->recovering},      {"starting", g->starting},         {"in all", g->elapsed}};
	markup_table(f, "Where the job's time went", columns);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		markup(f, "<tr>");
		markup_cell(f, "%s", rows[i].name);
		markup_ms(f, rows[i].seconds * 1000);
		cell_share(f, g->elapsed > 0 ? rows[i].seconds / g->elapsed : NAN);
		markup(f, "</tr>\n");
	}
	markup_table_end(f);
}

void html_model(FILE *f, const struct report_goodput *g)
{
	static const char *const columns[] = {"Goodput", ">Share", ">Give or take", NULL};
	const struct {
		const char *name;
		double share, spread;
	} rows[] = {{"measured", g->measured, NAN},
		    {"by Daly's formula", g->formula, NAN},
		    {"simulated", g->simulated, g->spread}};
	markup_table(f, "Goodput after the start, against the model of ckpt plan", columns);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		markup(f, "<tr>");
		markup_cell(f, "%s", rows[i].name);
		cell_share(f, rows[i].share);
		cell_share(f, rows[i].spread);
		markup(f, "</tr>\n");
	}
	markup_table_end(f);
}

void html_invariants(FILE *f, const struct report *r)
{
	static const char *const columns[] = {
		"Invariant", "Held", ">Looked at", ">Not due", "What was broken, or not due", NULL};
	const json_t *one;
	size_t i;
	markup_table(f, "What was promised", columns);
	json_array_foreach(r->invariants, i, one)
	{
		bool held = json_is_true(json_object_get(one, "held"));
		const char *text = json_string_value(json_object_get(one, held ? "why" : "text"));
		markup(f, "<tr>");
		markup_cell(f, "%s", json_string_value(json_object_get(one, "name")));
		markup(f, held ? "<td class=\"good\">yes</td>" : "<td class=\"bad\">no</td>");
		markup_number(f, "%lu", (unsigned long)json_integer_value(json_object_get(one, "looked_at")));
		markup_number(f, "%lu", (unsigned long)json_integer_value(json_object_get(one, "not_due")));
		cell_words(f, text ? text : "");
		markup(f, "</tr>\n");
	}
	markup_table_end(f);
}
