/* ckpt ranks: where each rank of a job is, by its own word, and how long its steps take. */
#include "frame/field.h"
#include "frame/live.h"
#include "frame/state.h"
#include "operate/ranks_view.h"

#include "base/clock.h"
#include "format/tensor/names.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_NS (5 * CLOCK_NS_PER_S)

enum { HEADER_ROWS = 5, LEAST_ROWS = 3 /* ranks that are shown however small the terminal is */ };

struct watched {
	struct state_of of;
	const char *job; /* NULL: all */
};

/* ---- choosing -------------------------------------------------------------------------------------------------- */

/* The document of --json, of the jobs that are meant; *others: the names of those that are not. */
static json_t *view_of(const struct watched *w, const json_t *state, char *others, size_t size)
{
	json_t *jobs = json_array(), *doc = json_object(), *node = json_object_get(state, "node");
	const json_t *job;
	size_t i, len = 0;
	*others = '\0';
	json_array_foreach(json_object_get(state, "jobs"), i, job)
	{
		const char *name = json_string_value(json_object_get(job, "name"));
		if (!w->job || (name && !strcmp(name, w->job)))
			json_array_append_new(jobs, ranks_job(job));
		else if (name && len < size)
			len += (size_t)snprintf(others + len, size - len, "%s%s", len ? ", " : "", name);
	}
	json_object_set_new(doc, "node", node ? json_incref(node) : json_null());
	json_object_set_new(doc, "jobs", jobs);
	return doc;
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

static void number_cell(struct table *t, const json_t *value)
{
	if (json_is_integer(value))
		table_cell(t, TONE_PLAIN, "%" PRId64, (int64_t)json_integer_value(value));
	else
		table_cell(t, TONE_DIM, "-");
}

/* Whatever number it is, it is shown. */
static const char *duration_text(char text[32], const json_t *ms)
{
	double value = fmin(fmax(json_number_value(ms), 0), 1e12);
	return text_duration(text, 32, (uint64_t)(value * CLOCK_NS_PER_MS));
}

static void time_cell(struct table *t, bool known, const json_t *ms, const char *unit)
{
	char text[32];
	if (known && json_is_number(ms) && json_number_value(ms) >= 0)
		table_cell(t, TONE_PLAIN, "%s%s", duration_text(text, ms), unit);
	else
		table_cell(t, TONE_DIM, "-");
}

static void collective_cells(struct table *t, const json_t *collective)
{
	bool known = json_is_object(collective), in = json_is_true(field(collective, "in"));
	if (known)
		table_cell(t, in ? TONE_PLAIN : TONE_DIM, "%s #%" PRId64, field_text(collective, "op"),
			   field_number(collective, "number"));
	else
		table_cell(t, TONE_DIM, "-");
	time_cell(t, in, field(collective, "entered_ms"), "");
}

static void straggler_cells(struct table *t, const json_t *straggler)
{
	if (!json_is_object(straggler)) {
		table_cell(t, TONE_DIM, "-");
		table_cell(t, TONE_DIM, "-");
		return;
	}
	table_cell(t, TONE_PLAIN, "%.0f%%", 100 * json_number_value(field(straggler, "own")));
	if (json_is_true(field(straggler, "is")))
		table_cell(t, TONE_WARN, "yes, costs %.0f%%", 100 * json_number_value(field(straggler, "cost")));
	else
		table_cell(t, TONE_PLAIN, "no");
}

static void loss_cell(struct table *t, const json_t *loss)
{
	if (json_is_number(field(loss, "loss")))
		table_cell(t, TONE_PLAIN, "%.4g", json_number_value(field(loss, "loss")));
	else if (json_is_object(loss))
		table_cell(t, TONE_BAD, "no number");
	else
		table_cell(t, TONE_DIM, "-");
}

static enum tone tone_of(const char *doing)
{
	return !strcmp(doing, "hangs") ? TONE_BAD : !strcmp(doing, "absent") ? TONE_WARN : TONE_PLAIN;
}

static void add_rank(struct table *t, const json_t *rank, bool losses)
{
	const char *doing = field_text(rank, "doing");
	number_cell(t, field(rank, "rank"));
	table_cell(t, tone_of(doing), "%s", doing);
	number_cell(t, field(rank, "step"));
	table_cell(t, TONE_PLAIN, "%s", field_text(rank, "phase"));
	collective_cells(t, field(rank, "collective"));
	time_cell(t, true, field(rank, "beat_age_ms"), " ago");
	time_cell(t, true, field(rank, "step_ms"), "");
	if (json_is_number(field(rank, "deviation")))
		table_cell(t, TONE_PLAIN, "%+.0f%%", json_number_value(field(rank, "deviation")) * 100);
	else
		table_cell(t, TONE_DIM, "-");
	straggler_cells(t, field(rank, "straggler"));
	if (losses)
		loss_cell(t, field(rank, "loss"));
}

static bool is_here(const json_t *job, const json_t *number)
{
	const json_t *rank;
	size_t i;
	json_array_foreach(field(job, "ranks"), i, rank) if (json_equal(field(rank, "rank"), number)) return true;
	return false;
}

/* Those of other nodes, and nodes: the table has the ranks that are here. */
static void draw_stragglers(const json_t *job)
{
	const json_t *e;
	size_t i;
	json_array_foreach(field(job, "stragglers"), i, e)
	{
		bool over = json_is_integer(field(e, "until_ns"));
		if (!over && !is_here(job, field(e, "rank")) && json_is_string(field(e, "text")))
			out(TONE_WARN, "%s\n", field_text(e, "text"));
	}
}

/* What is wrong now, of all ranks together. */
static void draw_troubles(const json_t *job)
{
	const json_t *stands = field(job, "standstill"), *loss = field(job, "loss"),
		     *episodes = field(loss, "episodes");
	char text[32];
	if (json_is_object(stands))
		out(TONE_WARN, "no heartbeat for %s: %s\n", duration_text(text, field(stands, "for_ms")),
		    field_text(stands, "text"));
	if (json_is_string(field(loss, "trouble")))
		out(TONE_WARN, "%s\n", field_text(json_array_get(episodes, json_array_size(episodes) - 1), "text"));
	draw_stragglers(job);
}

static void draw_job(const json_t *job, const char *node, size_t most)
{
	static const struct column columns[] = {
		{"RANK", ALIGN_RIGHT},      {"DOING", ALIGN_LEFT},      {"STEP", ALIGN_RIGHT},
		{"PHASE", ALIGN_LEFT},      {"COLLECTIVE", ALIGN_LEFT}, {"FOR", ALIGN_RIGHT},
		{"HEARTBEAT", ALIGN_RIGHT}, {"STEP TIME", ALIGN_RIGHT}, {"DEVIATION", ALIGN_RIGHT},
		{"OWN PART", ALIGN_RIGHT},  {"STRAGGLER", ALIGN_LEFT},  {"LOSS", ALIGN_RIGHT}};
	const json_t *ranks = field(job, "ranks");
	int64_t world = (int64_t)json_integer_value(field(job, "world"));
	size_t n = json_array_size(ranks);
	bool losses = json_is_object(field(job, "loss")); /* else the last column is left out */
	struct table *t = table_new(columns, sizeof(columns) / sizeof(columns[0]) - !losses);
	out(TONE_HEAD, "job %s", field_text(job, "name"));
	out(TONE_PLAIN, ": %s, epoch %" PRId64 ", ", field_text(job, "state"), field_number(job, "epoch"));
	if (world == (int64_t)n)
		out(TONE_PLAIN, "%zu ranks\n", n);
	else
		out(TONE_PLAIN, "the %zu of its %" PRId64 " ranks that are on %s\n", n, world, node);
	draw_troubles(job);
	for (size_t i = 0; i < n && i < most; i++)
		add_rank(t, json_array_get(ranks, i), losses);
	table_print(t);
	if (n > most)
		out(TONE_DIM, "%zu more ranks\n", n - most);
}

/* rows 0: no bound. */
static void draw_jobs(const json_t *doc, int rows)
{
	const json_t *jobs = field(doc, "jobs"), *job;
	size_t i, n = json_array_size(jobs), most = SIZE_MAX;
	if (rows && n)
		most = rows / (int)n > HEADER_ROWS + LEAST_ROWS ? (size_t)(rows / (int)n - HEADER_ROWS - 1)
								: LEAST_ROWS;
	json_array_foreach(jobs, i, job)
	{
		if (i)
			out(TONE_PLAIN, "\n");
		draw_job(job, field_text(doc, "node"), most);
	}
	if (!n)
		out(TONE_DIM, "no jobs\n");
}

/* ---- the command ----------------------------------------------------------------------------------------------- */

static void draw(void *arg, int rows)
{
	const struct watched *w = arg;
	struct err err = {""};
	char others[256];
	json_t *state;
	if (state_ask(&w->of, &state, &err)) {
		out(TONE_BAD, "%s\n", err.text);
		return;
	}
	json_t *doc = view_of(w, state, others, sizeof(others));
	draw_jobs(doc, rows);
	json_decref(doc);
	json_decref(state);
}

static int show(const struct cli *cli, const struct watched *w, const json_t *state)
{
	char others[256];
	json_t *view = view_of(w, state, others, sizeof(others));
	int code = EXIT_OK;
	if (w->job && !json_array_size(field(view, "jobs"))) {
		code = cli_fail(cli, EXIT_FAILED, "the daemon has no job %s; it has: %s", w->job,
				*others ? others : "none");
	} else if (cli->json) {
		json_t *doc = json_document(cli);
		json_object_update(doc, view);
		json_emit(doc);
	} else if (cli_flag(cli, "watch") && live_possible(cli)) {
		struct live live = {.draw = draw, .arg = (void *)w};
		code = live_interval(cli, &live.every_ms);
		if (!code)
			code = live_run(cli, &live);
	} else {
		draw_jobs(view, 0);
	}
	json_decref(view);
	return code;
}

static int choose(const struct cli *cli, struct watched *w)
{
	struct err err = {""};
	w->job = cli_text(cli, "job");
	if (!w->job)
		w->job = getenv("CKPT_JOB");
	if (w->job && !*w->job)
		w->job = NULL;
	if (w->job && name_check("job", w->job, NAME_JOB_MAX, &err))
		return cli_fail(cli, EXIT_USAGE, "%s", err.text);
	return state_of(cli, ANSWER_NS, &w->of);
}

static int run(struct cli *cli)
{
	struct err err = {""};
	struct watched w;
	uint64_t ms;
	json_t *state;
	int code = live_interval(cli, &ms);
	if (!code)
		code = choose(cli, &w);
	if (code)
		return code;
	code = state_ask(&w.of, &state, &err);
	if (code)
		return cli_fail(cli, code, "%s", err.text);
	code = show(cli, &w, state);
	json_decref(state);
	return code;
}

static const struct option_spec options[] = {
	{"job", OPTION_TEXT, "NAME", "the ranks of this job alone (else CKPT_JOB; else of all)"},
	{"watch", OPTION_FLAG, NULL, "draw the table again and again, until q or an interrupt"},
	LIVE_INTERVAL_OPTION,
	CONTACT_SOCKET_OPTION,
	CONTACT_USER_OPTION,
	{NULL},
};

const struct command command_ranks = {
	.name = "ranks",
	.summary = "show where each rank of this node is: step, collective, heartbeat, step time",
	.detail = "What a rank says of itself: with its heartbeats (ckpt_beat), and in its flight record\n"
		  "(ckpt_collective_enter). DEVIATION is from the job's median, of the ranks of this node. Ranks that\n"
		  "meet in collectives have the same step time, whoever is late. Exit code 12: no daemon answers.",
	.args = "",
	.no_repo = true,
	.options = options,
	.run = run,
};
