#include "inspect/recoveries.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TIME_TEXT = 24, REASON_SHOWN = 60 };

static const struct {
	const char *key, *title;
} parts[] = {{"detect_ms", "DETECT"}, {"decide_ms", "DECIDE"}, {"gather_ms", "GATHER"},        {"choose_ms", "CHOOSE"},
	     {"fetch_ms", "FETCH"},   {"load_ms", "LOAD"},     {"first_step_ms", "FIRST STEP"}};

enum { PARTS = sizeof(parts) / sizeof(parts[0]), BEFORE = 5, COLUMNS = BEFORE + PARTS + 2 };

static const json_t *at(const json_t *object, const char *key)
{
	return json_object_get(object, key);
}

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(at(object, key));
	return text ? text : "-";
}

static int64_t number_of(const json_t *object, const char *key)
{
	return json_integer_value(at(object, key));
}

static void time_cell(struct table *t, const json_t *object, const char *key)
{
	const json_t *value = at(object, key);
	double ms = json_number_value(value);
	char text[TIME_TEXT];
	if (json_is_number(value) && ms >= 0 && ms < 1e12)
		table_cell(t, TONE_PLAIN, "%s", text_duration(text, sizeof(text), (uint64_t)(ms * 1e6)));
	else
		table_cell(t, TONE_DIM, "-");
}

static void restored_cell(struct table *t, const json_t *r)
{
	if (!json_is_true(at(r, "ok")))
		table_cell(t, TONE_BAD, "refused");
	else if (json_is_integer(at(r, "step")))
		table_cell(t, TONE_PLAIN, "step %" PRId64 " from %s", number_of(r, "step"), text_of(r, "source"));
	else
		table_cell(t, TONE_WARN, "nothing was there");
}

static void total_cell(struct table *t, const json_t *r)
{
	if (json_is_number(at(r, "total_ms")))
		time_cell(t, r, "total_ms");
	else
		table_cell(t, TONE_WARN, "%s", text_of(r, "state"));
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
		table_cell(t, TONE_PLAIN, "%s", text_of(r, "job"));
		table_cell(t, TONE_PLAIN, "%s", text_of(r, "node"));
		table_cell(t, TONE_PLAIN, "%s", text_age(age, sizeof(age), (uint64_t)number_of(r, "ended_ns")));
		table_cell(t, TONE_PLAIN, "%" PRId64, number_of(r, "epoch"));
		restored_cell(t, r);
		for (int i = 0; i < PARTS; i++)
			time_cell(t, r, parts[i].key);
		total_cell(t, r);
		table_cell(t, TONE_PLAIN, "%.*s", REASON_SHOWN, text_of(r, "reason"));
	}
	table_print(t);
}

static void print_passed_over(const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *r = json_array_get(list, i);
		const char *text = text_of(r, "passed_over");
		if (!*text || !strcmp(text, "-"))
			continue;
		out(TONE_WARN, "%s epoch %" PRId64 " on %s", text_of(r, "job"), number_of(r, "epoch"),
		    text_of(r, "node"));
		out(TONE_PLAIN, ": %s%s\n", json_is_true(at(r, "ok")) ? "passed over: " : "", text);
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
		const json_t *r = json_array_get(list, i), *ranks = at(r, "ranks");
		for (size_t k = 0; k < json_array_size(ranks); k++) {
			const json_t *rank = json_array_get(ranks, k);
			const char *node = json_string_value(at(rank, "from"));
			table_cell(t, TONE_PLAIN, "%s", text_of(r, "job"));
			table_cell(t, TONE_PLAIN, "%s", text_of(r, "node"));
			table_cell(t, TONE_PLAIN, "%" PRId64, number_of(r, "epoch"));
			table_cell(t, TONE_PLAIN, "%" PRId64, number_of(rank, "rank"));
			table_cell(t, TONE_PLAIN, "%s%s%s", text_of(rank, "source"), node ? " " : "", node ? node : "");
			time_cell(t, rank, "fetch_ms");
			time_cell(t, rank, "load_ms");
			time_cell(t, rank, "first_step_ms");
			table_cell(t, TONE_PLAIN, "%s",
				   json_is_string(at(rank, "skipped")) ? text_of(rank, "skipped") : "-");
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
