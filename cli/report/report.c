/* ckpt report: what a campaign came to. */
#include "report/report_html.h"

#include "base/cleanup.h"
#include "frame/replace_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DUMP (JSON_COMPACT | JSON_REAL_PRECISION(15))

int report_make(const char *folder, struct report *r, struct err *err)
{
	int rc = report_read(folder, r, err);
	if (rc)
		return rc;
	report_match(r);
	report_count_time(r);
	rc = report_count_causes(r);
	if (!rc)
		rc = report_draw_timeline(r);
	return rc ? err_set(err, rc, "%s: %s", folder, err_name(rc)) : 0;
}

/* ---- files --------------------------------------------------------------------------------------------------------- */

static int put_json(FILE *f, const void *arg)
{
	return json_dumpf(arg, f, DUMP) || fputc('\n', f) == EOF ? -EIO : 0;
}

struct page {
	const struct report *report;
	const struct report_spread *spreads;
};

static int put_page(FILE *f, const void *arg)
{
	const struct page *page = arg;
	return report_html(f, page->report, page->spreads);
}

int report_write(const struct report *r, struct err *err)
{
	struct report_spread spreads[REPORT_SPREADS];
	char path[PATH_MAX];
	int rc = report_spreads(r, spreads);
	if (rc)
		return err_set(err, rc, "%s: %s", r->folder, err_name(rc));
	json_t *document = report_document(r, spreads);
	snprintf(path, sizeof(path), "%s/report.json", r->folder);
	rc = replace_file(path, put_json, document, err);
	json_decref(document);
	snprintf(path, sizeof(path), "%s/report.html", r->folder);
	return rc ? rc : replace_file(path, put_page, &(struct page){r, spreads}, err);
}

/* ---- on a terminal ------------------------------------------------------------------------------------------------- */

static void cell_ms(struct table *t, double ms)
{
	char text[32];
	if (isnan(ms))
		table_cell(t, TONE_DIM, "-");
	else
		table_cell(t, TONE_PLAIN, "%s", text_duration(text, sizeof(text), (uint64_t)(ms * 1e6)));
}

static void print_causes(const struct report *r)
{
	static const struct column columns[] = {
		{"CAUSE", ALIGN_LEFT},       {"FAULTS", ALIGN_RIGHT},    {"FIRED", ALIGN_RIGHT},
		{"FOUND", ALIGN_RIGHT},      {"RECOVERED", ALIGN_RIGHT}, {"FOUND AFTER", ALIGN_RIGHT},
		{"BACK AFTER", ALIGN_RIGHT}, {"AT MOST", ALIGN_RIGHT},   {"STEPS LOST", ALIGN_RIGHT}};
	struct table *t = table_new(columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < r->causes.n; i++) {
		const struct report_cause *c = &r->causes.at[i];
		table_cell(t, TONE_PLAIN, "%s", c->name);
		table_cell(t, TONE_PLAIN, "%zu", c->faults);
		table_cell(t, c->fired < c->faults ? TONE_WARN : TONE_PLAIN, "%zu", c->fired);
		table_cell(t, TONE_PLAIN, "%zu", c->found);
		table_cell(t, TONE_PLAIN, "%zu", c->recovered);
		cell_ms(t, c->found_ms[0]);
		cell_ms(t, c->back_ms[0]);
		cell_ms(t, c->back_ms[1]);
		table_cell(t, TONE_PLAIN, "%lu", (unsigned long)c->steps_lost);
	}
	table_print(t);
}

double report_compression_planned(const struct report *r)
{
	return r->lasted_ms && r->span_ms ? (double)r->lasted_ms / (double)r->span_ms : NAN;
}

double report_compression_measured(const struct report *r)
{
	double ran = 1000 * (r->goodput.elapsed - r->goodput.starting);
	return r->lasted_ms && r->ended && ran > 0 ? (double)r->lasted_ms / ran : NAN;
}

static void print_compression(const struct report *r)
{
	double planned = report_compression_planned(r), measured = report_compression_measured(r);
	if (isnan(planned))
		return;
	out(TONE_PLAIN, "what lasted %.1f days: compressed %.0f times by the file", (double)r->lasted_ms / 86400000,
	    planned);
	if (!isnan(measured))
		out(TONE_PLAIN, ", %.0f times in fact", measured);
	out(TONE_PLAIN, "\n");
}

static void print(const struct report *r)
{
	const struct report_goodput *g = &r->goodput;
	out(TONE_PLAIN, "%zu of %lu faults caused; %lu steps, and %lu that were lost and done again\n", r->faults.n,
	    (unsigned long)r->planned, (unsigned long)r->step, (unsigned long)r->steps_lost);
	if (!isnan(g->measured))
		out(TONE_PLAIN, "goodput %.1f%% of %.1f s", 100 * g->measured, g->elapsed - g->starting);
	if (!isnan(g->simulated))
		out(TONE_PLAIN, "; the model of ckpt plan says %.1f%%, and by formula %.1f%%", 100 * g->simulated,
		    100 * g->formula);
	out(TONE_PLAIN, "\n");
	print_compression(r);
	print_causes(r);
}

/* ---- the command --------------------------------------------------------------------------------------------------- */

static int show(const struct cli *cli, const struct report *r)
{
	struct report_spread spreads[REPORT_SPREADS];
	const char *page = cli_text(cli, "html");
	struct err err = {""};
	if (report_spreads(r, spreads))
		return cli_fail(cli, EXIT_FAILED, "out of memory");
	if (page && replace_file(page, put_page, &(struct page){r, spreads}, &err))
		return cli_fail(cli, EXIT_FAILED, "%s", err.text);
	if (!cli->json) {
		if (!page)
			print(r);
		return EXIT_OK;
	}
	json_t *document = report_document(r, spreads);
	int rc = put_json(stdout, document);
	json_decref(document);
	return rc ? cli_fail(cli, EXIT_FAILED, "writing to stdout: %s", err_name(rc)) : EXIT_OK;
}

static int run(struct cli *cli)
{
	struct report r;
	struct err err = {""};
	int rc = report_make(cli->args[0], &r, &err);
	int code = rc ? cli_fail(cli, EXIT_FAILED, "%s", err.text) : show(cli, &r);
	if (!code && r.unreadable)
		cli_note(cli, "%lu lines could not be read, and are left out", (unsigned long)r.unreadable);
	report_free(&r);
	return code;
}

static const struct option_spec options[] = {
	{"html", OPTION_TEXT, "FILE", "write the report there as a page that stands alone, instead of the table"},
	{NULL},
};

const struct command command_report = {
	.name = "report",
	.summary = "what a campaign of faults came to",
	.detail =
		"DIR is the folder that ckpt campaign was given as --dir. The campaign may still be under way, or may\n"
		"have been cut off. No daemon is asked.",
	.args = "DIR",
	.min_args = 1,
	.max_args = 1,
	.no_repo = true,
	.options = options,
	.run = run,
};
