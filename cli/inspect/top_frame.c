#include "inspect/top.h"

#include "frame/field.h"

#include "base/bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
	CELL_TEXT = 24,
	SPARK_STEPS = 24,
	SPARK_BYTES = 3 * SPARK_STEPS + 1,
	RECOVERIES = 3,
	FINDINGS = 4,
	SAVES_ONCE = 16,
	LEAST = 3, /* rows that a list keeps however small the terminal is */
};

/* "12 ms"; "-" when it is not known. Returns dst. */
static const char *time_of(const json_t *object, const char *key, char *dst)
{
	const json_t *value = field(object, key);
	double ms = json_number_value(value);
	if (!json_is_number(value))
		snprintf(dst, CELL_TEXT, "-");
	else if (ms < 1000)
		snprintf(dst, CELL_TEXT, ms < 10 ? "%.1f ms" : "%.0f ms", ms);
	else if (ms < 120000)
		snprintf(dst, CELL_TEXT, "%.1f s", ms / 1000);
	else
		snprintf(dst, CELL_TEXT, "%.0f min", ms / 60000);
	return dst;
}

static const char *rate_of(double bytes, double ms, char *dst)
{
	char size[16];
	if (ms <= 0 || bytes < 0)
		snprintf(dst, CELL_TEXT, "-");
	else
		snprintf(dst, CELL_TEXT, "%s/s", bytes_human(size, sizeof(size), (uint64_t)(bytes / ms * 1000)));
	return dst;
}

/* ---- the lists --------------------------------------------------------------------------------------------------- */

/* The last steps, the longest of them as high as a character goes. */
static const char *sparkline(const json_t *recent, char dst[SPARK_BYTES])
{
	static const char *const levels[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	size_t n = json_array_size(recent), from = n > SPARK_STEPS ? n - SPARK_STEPS : 0, used = 0;
	double most = 0;
	for (size_t i = from; i < n; i++) {
		double v = json_number_value(json_array_get(recent, i));
		most = v > most ? v : most;
	}
	dst[0] = 0;
	for (size_t i = from; i < n && most > 0; i++) {
		double share = json_number_value(json_array_get(recent, i)) / most;
		int level = share < 0 ? 0 : share >= 1 ? 7 : (int)(share * 8);
		used += (size_t)snprintf(dst + used, SPARK_BYTES - used, "%s", levels[level]);
	}
	return dst;
}

static void draw_ranks(const json_t *ranks, size_t most)
{
	static const struct column columns[] = {{"RANK", ALIGN_RIGHT},      {"STATE", ALIGN_LEFT},
						{"STEP", ALIGN_RIGHT},      {"PHASE", ALIGN_LEFT},
						{"HEARTBEAT", ALIGN_RIGHT}, {"STEP TIME", ALIGN_RIGHT},
						{"99%", ALIGN_RIGHT},       {"LAST STEPS", ALIGN_LEFT}};
	struct table *t = table_new(columns, sizeof(columns) / sizeof(columns[0]));
	size_t n = json_array_size(ranks);
	for (size_t i = 0; i < n && i < most; i++) {
		const json_t *rank = json_array_get(ranks, i), *steps = field(rank, "steps");
		char cell[CELL_TEXT], spark[SPARK_BYTES];
		bool hung = json_is_true(field(rank, "hung")), joined = !strcmp(field_text(rank, "state"), "joined");
		table_cell(t, TONE_PLAIN, "%" PRId64, field_number(rank, "rank"));
		table_cell(t,
			   hung     ? TONE_BAD
			   : joined ? TONE_PLAIN
				    : TONE_WARN,
			   "%s", hung ? "hangs" : field_text(rank, "state"));
		table_cell(t, TONE_PLAIN, "%" PRId64, field_number(rank, "step"));
		table_cell(t, TONE_PLAIN, "%s", field_text(rank, "phase"));
		table_cell(t, TONE_PLAIN, "%s", time_of(rank, "beat_age_ms", cell));
		table_cell(t, TONE_PLAIN, "%s", time_of(steps, "p50_ms", cell));
		table_cell(t, TONE_PLAIN, "%s", time_of(steps, "p99_ms", cell));
		table_cell(t, TONE_PLAIN, "%s", sparkline(field(steps, "recent_ms"), spark));
	}
	table_print(t);
	if (n > most)
		out(TONE_DIM, "%zu more ranks\n", n - most);
}

static enum tone tone_of(const json_t *save)
{
	const char *level = field_text(save, "level");
	return json_is_string(field(save, "error")) ? TONE_BAD : !strcmp(level, "verified") ? TONE_GOOD : TONE_PLAIN;
}

static void draw_saves(const json_t *saves, size_t most)
{
	static const struct column columns[] = {
		{"SAVE", ALIGN_RIGHT},    {"EPOCH", ALIGN_RIGHT},    {"LEVEL", ALIGN_LEFT}, {"CAPTURED", ALIGN_RIGHT},
		{"DURABLE", ALIGN_RIGHT}, {"VERIFIED", ALIGN_RIGHT}, {"DISK", ALIGN_RIGHT}, {"ERROR", ALIGN_LEFT}};
	struct table *t = table_new(columns, sizeof(columns) / sizeof(columns[0]));
	size_t n = json_array_size(saves);
	for (size_t i = n; i-- > 0 && n - i <= most;) {
		const json_t *save = json_array_get(saves, i);
		char cell[CELL_TEXT];
		table_cell(t, TONE_PLAIN, "%" PRId64, field_number(save, "step"));
		table_cell(t, TONE_PLAIN, "%" PRId64, field_number(save, "epoch"));
		table_cell(t, tone_of(save), "%s%s", field_text(save, "level"),
			   !strcmp(field_text(save, "target"), "memory") ? " (memory)" : "");
		table_cell(t, TONE_PLAIN, "%s", time_of(save, "captured_ms", cell));
		table_cell(t, TONE_PLAIN, "%s", time_of(save, "durable_ms", cell));
		table_cell(t, TONE_PLAIN, "%s", time_of(save, "verified_ms", cell));
		table_cell(t, TONE_PLAIN, "%s",
			   rate_of(json_number_value(field(save, "written_bytes")),
				   json_number_value(field(save, "write_ms")), cell));
		table_cell(t, TONE_PLAIN, "%s", json_is_string(field(save, "error")) ? field_text(save, "error") : "");
	}
	table_print(t);
}

static void draw_recovery(const json_t *r)
{
	static const struct {
		const char *key, *name;
	} parts[] = {{"detect_ms", "detect"},        {"decide_ms", "decide"}, {"gather_ms", "gather"},
		     {"choose_ms", "choose"},        {"fetch_ms", "fetch"},   {"load_ms", "load"},
		     {"first_step_ms", "first step"}};
	char cell[CELL_TEXT];
	bool good = json_is_true(field(r, "ok"));
	out(TONE_HEAD, "recovery");
	out(good ? TONE_PLAIN : TONE_BAD, " epoch %" PRId64 ": ", field_number(r, "epoch"));
	if (!good)
		out(TONE_BAD, "refused");
	else if (json_is_integer(field(r, "step")))
		out(TONE_PLAIN, "step %" PRId64 " from %s", field_number(r, "step"), field_text(r, "source"));
	else
		out(TONE_PLAIN, "nothing was there");
	if (json_is_number(field(r, "total_ms")))
		out(TONE_PLAIN, " in %s", time_of(r, "total_ms", cell));
	else
		out(TONE_WARN, " %s", field_text(r, "state"));
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		out(TONE_DIM, "%s%s %s", i ? ", " : " (", parts[i].name, time_of(r, parts[i].key, cell));
	out(TONE_PLAIN, "): %s\n", field_text(r, "reason"));
}

static void draw_recoveries(const json_t *recent, size_t most)
{
	size_t n = json_array_size(recent);
	for (size_t i = n; i-- > 0 && n - i <= most;)
		draw_recovery(json_array_get(recent, i));
}

/* ---- the whole ----------------------------------------------------------------------------------------------------- */

static void draw_level(const json_t *saves, const char *level)
{
	const json_t *l = field(saves, level);
	char half[CELL_TEXT], most[CELL_TEXT];
	if (json_is_integer(field(l, "step")))
		out(TONE_PLAIN, "%s step %" PRId64 " (%s, 99%% %s)  ", level, field_number(l, "step"),
		    time_of(l, "p50_ms", half), time_of(l, "p99_ms", most));
	else
		out(TONE_DIM, "%s none  ", level);
}

/* "1 of 2, on b, c"; of a job that is not replicated nothing. */
static void draw_copies(const json_t *copies)
{
	const json_t *holders = field(copies, "holders");
	const char *key, *between = " on ";
	json_t *value;
	if (!json_is_object(copies) || !json_is_integer(field(copies, "step")))
		return;
	bool missing = field_number(copies, "ranks_missing") > 0;
	out(missing ? TONE_WARN : TONE_PLAIN, "copies of step %" PRId64 ": %" PRId64 " of %" PRId64,
	    field_number(copies, "step"), field_number(copies, "held"), field_number(copies, "wanted"));
	json_object_foreach((json_t *)holders, key, value)
	{
		out(TONE_PLAIN, "%s%s", between, key);
		between = ", ";
	}
	if (json_is_true(field(copies, "under_way")))
		out(TONE_DIM, ", under way");
	else if (missing)
		out(TONE_WARN, ", %" PRId64 " ranks lack some: %s", field_number(copies, "ranks_missing"),
		    field_text(copies, "error"));
	out(TONE_PLAIN, "\n");
}

static size_t least(size_t n, size_t most)
{
	return n < most ? n : most;
}

/* rows: what this job may take; -1: no bound. */
static void draw_job(const json_t *job, int rows)
{
	const json_t *saves = field(job, "saves"), *recent = field(saves, "recent"), *ranks = field(job, "ranks"),
		     *recoveries = field(field(job, "recoveries"), "recent");
	size_t nranks = json_array_size(ranks), nsaves = json_array_size(recent),
	       nrecoveries = least(json_array_size(recoveries), RECOVERIES);
	if (rows >= 0) {
		int left = rows - 8 -
			   (int)nrecoveries; /* blank lines, head, levels, copies, heads of the lists, "more ranks" */
		nranks = least(nranks, (size_t)(left - LEAST > LEAST ? left - LEAST : LEAST));
		nsaves = least(nsaves, (size_t)(left - (int)nranks > LEAST ? left - (int)nranks : LEAST));
	} else {
		nsaves = least(nsaves, SAVES_ONCE);
	}
	out(TONE_HEAD, "\n%s", field_text(job, "name"));
	out(TONE_PLAIN, ": %s, %" PRId64 " ranks, epoch %" PRId64 ", %" PRId64 " committed, %" PRId64 " failed\n",
	    field_text(job, "state"), field_number(job, "world"), field_number(job, "epoch"),
	    field_number(job, "committed"), field_number(job, "failed"));
	draw_level(saves, "captured");
	if (json_is_object(field(job, "copies")))
		draw_level(saves, "replicated");
	draw_level(saves, "durable");
	draw_level(saves, "verified");
	out(TONE_PLAIN, "\n");
	draw_copies(field(job, "copies"));
	draw_ranks(ranks, nranks);
	if (nsaves)
		draw_saves(recent, nsaves);
	draw_recoveries(recoveries, nrecoveries);
}

static int draw_findings(const json_t *health)
{
	const json_t *findings = field(health, "findings");
	size_t n = least(json_array_size(findings), FINDINGS);
	for (size_t i = 0; i < n; i++) {
		const json_t *f = json_array_get(findings, i);
		const char *severity = field_text(f, "severity");
		out(!strcmp(severity, "failing") ? TONE_BAD : TONE_WARN, "%s", field_text(f, "code"));
		out(TONE_PLAIN, " %s%s%s\n", json_is_string(field(f, "job")) ? field_text(f, "job") : "",
		    json_is_string(field(f, "job")) ? ": " : "", field_text(f, "text"));
		out(TONE_DIM, "  %s\n", field_text(f, "remedy"));
	}
	return 2 * (int)n;
}

static void draw_head(const json_t *doc)
{
	const json_t *memory = field(doc, "memory"), *disk = field(doc, "disk"), *job;
	const char *status = field_text(field(doc, "health"), "status");
	char used[16], limit[16], left[16], rate[CELL_TEXT];
	double bytes = 0, ms = 0;
	size_t i;
	json_array_foreach(field(doc, "jobs"), i, job)
	{
		bytes += json_number_value(field(field(job, "saves"), "written_bytes"));
		ms += json_number_value(field(field(job, "saves"), "write_ms"));
	}
	out(TONE_HEAD, "ckptd %s", field_text(doc, "node"));
	out(TONE_PLAIN, " %s, up %.0f s: ", field_text(doc, "version"), json_number_value(field(doc, "uptime_s")));
	out(!strcmp(status, "ok") ? TONE_GOOD : !strcmp(status, "degraded") ? TONE_WARN : TONE_BAD, "%s\n", status);
	out(TONE_PLAIN, "memory %s of %s  store %s free  disk rate %s (%s)\n",
	    bytes_human(used, sizeof(used), (uint64_t)field_number(memory, "used")),
	    bytes_human(limit, sizeof(limit), (uint64_t)field_number(memory, "limit")),
	    json_is_integer(field(disk, "free_bytes"))
		    ? bytes_human(left, sizeof(left), (uint64_t)field_number(disk, "free_bytes"))
		    : "none,",
	    rate_of(bytes, ms, rate), field_text(disk, "engine"));
}

void top_draw(const json_t *status, int rows)
{
	const json_t *jobs = field(status, "jobs"), *job;
	size_t i, n = json_array_size(jobs);
	draw_head(status);
	int used = 2 + draw_findings(field(status, "health"));
	if (!n)
		out(TONE_DIM, "no jobs\n");
	json_array_foreach(jobs, i, job) draw_job(job, rows ? (rows - used) / (int)n : -1);
}
