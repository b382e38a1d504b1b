#include "inspect/recoveries.h"

#include "frame/field.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TIME_TEXT = 24, REASON_SHOWN = 60 };

static const struct {
	const char *key, *title;
} parts[] = {{"detect_ms", "DETECT"}, {"decide_ms", "DECIDE"}, {"gather_ms", "GATHER"},        {"choose_ms", "CHOOSE"},
	     {"fetch_ms", "FETCH"},   {"load_ms", "LOAD"},     {"first_step_ms", "FIRST STEP"}};

enum { PARTS = sizeof(parts) / sizeof(parts[0]), BEFORE = 5, COLUMNS = BEFORE + PARTS + 2 };

static void time_cell(struct table *t, const json_t *object, const char *key)
{
	const json_t *value = field(object, key);
	double ms = json_number_value(value);
	char text[TIME_TEXT];
	if (json_is_number(value) && ms >= 0 && ms < 1e12)
		table_cell(t, TONE_PLAIN, "%s", text_duration(text, sizeof(text), (uint64_t)(ms * 1e6)));
	else
		table_cell(t, TONE_DIM, "-");
}

static void restored_cell(struct table *t, const json_t *r)
{
	if (!json_is_true(field(r, "ok")))
		table_cell(t, TONE_BAD, "refused");
	else if (json_is_integer(field(r, "step")))
		table_cell(t, TONE_PLAIN, "step %" PRId64 " from %s", field_number(r, "step"), field_text(r, "source"));
	else
		table_cell(t, TONE_WARN, "nothing was there");
}

static void total_cell(struct table *t, const json_t *r)
{
	if (json_is_number(field(r, "total_ms")))
		time_cell(t, r, "total_ms");
	else
		table_cell(t, TONE_WARN, "%s", field_text(r, "state"));
}

static void print_recoveries(const json_t *list)
{
	struct column columns[COLUMNS] = {{"JOB", ALIGN_LEFT},
					  {"NODE", ALIGN_LEFT},
					  {"WHEN", ALIGN_RIGHT},
					  {"EPOCH", ALIGN_RIGHT},
					  {"RESTORED", ALIGN_LEFT}};
	for (int i = 0; i < PARTS; i++)
		columns[BEFORE + i] = (struct column){parts[i].title, ALIGN_RIGHT};
	columns[BEFORE + PARTS] = (struct column){"TOTAL", ALIGN_RIGHT};
	columns[BEFORE + PARTS + 1] = (struct column){"REASON", ALIGN_LEFT};
	struct table *t = table_new(columns, COLUMNS);
	for (size_t n = 0; n < json_array_size(list); n++) {
		const json_t *r = json_array_get(list, n);
		char age[32];
		table_cell(t, TONE_PLAIN, "%s", field_text(r, "job"));
		table_cell(t, TONE_PLAIN, "%s", field_text(r, "node"));
		table_cell(t, TONE_PLAIN, "%s", text_age(age, sizeof(age), (uint64_t)field_number(r, "ended_ns")));
		table_cell(t, TONE_PLAIN, "%" PRId64, field_number(r, "epoch"));
		restored_cell(t, r);
		for (int i = 0; i < PARTS; i++)
			time_cell(t, r, parts[i].key);
		total_cell(t, r);
		table_cell(t, TONE_PLAIN, "%.*s", REASON_SHOWN, field_text(r, "reason"));
	}
	table_print(t);
}

static void print_passed_over(const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *r = json_array_get(list, i);
		const char *text = field_text(r, "passed_over");
		if (!*text || !strcmp(text, "-"))
			continue;
		out(TONE_WARN, "%s epoch %" PRId64 " on %s", field_text(r, "job"), field_number(r, "epoch"),
		    field_text(r, "node"));
		out(TONE_PLAIN, ": %s%s\n", json_is_true(field(r, "ok")) ? "passed over: " : "", text);
	}
}

static void print_ranks(const json_t *list)
{
	static const struct column columns[] = {
		{"JOB", ALIGN_LEFT},   {"NODE", ALIGN_LEFT},        {"EPOCH", ALIGN_RIGHT},
		{"RANK", ALIGN_RIGHT}, {"FROM", ALIGN_LEFT},        {"FETCH", ALIGN_RIGHT},
		{"LOAD", ALIGN_RIGHT}, {"FIRST STEP", ALIGN_RIGHT}, {"PASSED OVER", ALIGN_LEFT},
	};
	struct table *t = table_new(columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *r = json_array_get(list, i), *ranks = field(r, "ranks");
		for (size_t k = 0; k < json_array_size(ranks); k++) {
			const json_t *rank = json_array_get(ranks, k);
			const char *node = json_string_value(field(rank, "from"));
			table_cell(t, TONE_PLAIN, "%s", field_text(r, "job"));
			table_cell(t, TONE_PLAIN, "%s", field_text(r, "node"));
			table_cell(t, TONE_PLAIN, "%" PRId64, field_number(r, "epoch"));
			table_cell(t, TONE_PLAIN, "%" PRId64, field_number(rank, "rank"));
			table_cell(t, TONE_PLAIN, "%s%s%s", field_text(rank, "source"), node ? " " : "",
				   node ? node : "");
			time_cell(t, rank, "fetch_ms");
			time_cell(t, rank, "load_ms");
			time_cell(t, rank, "first_step_ms");
			table_cell(t, TONE_PLAIN, "%s",
				   json_is_string(field(rank, "skipped")) ? field_text(rank, "skipped") : "-");
		}
	}
	table_print(t);
}

void recoveries_table(const json_t *list, bool ranks)
{
	print_recoveries(list);
	print_passed_over(list);
	if (!ranks)
		return;
	out(TONE_PLAIN, "\n");
	print_ranks(list);
}
