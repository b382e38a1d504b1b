#include "operate/ranks_view.h"

#include "frame/field.h"

#include "base/cleanup.h"
#include "base/doubles.h"

#include <stdlib.h>
#include <string.h>

static bool is(const json_t *object, const char *key, const char *word)
{
	const char *text = json_string_value(field(object, key));
	return text && !strcmp(text, word);
}

/* Of a rank that trains. Its flight record knows better than its phase, which it says before it enters. */
static const char *at_work(const json_t *rank)
{
	const json_t *collective = field(rank, "collective");
	bool recorded = json_is_object(collective);
	if (is(rank, "phase", "restore"))
		return "restoring";
	if (recorded ? json_is_true(field(collective, "in")) : is(rank, "phase", "collective"))
		return "collective";
	if (!json_is_integer(field(rank, "beat_age_ms")))
		return "silent";
	if (is(rank, "phase", "save"))
		return "saving";
	return is(rank, "phase", "idle") ? "idle" : "computing";
}

const char *ranks_doing(const json_t *rank)
{
	const char *state = json_string_value(field(rank, "state"));
	if (json_is_true(field(rank, "hung")))
		return "hangs";
	if (json_is_string(field(rank, "waits")))
		return "waiting";
	return is(rank, "state", "joined") ? at_work(rank) : state ? state : "unknown";
}

/* Of the ranks whose steps are known, the lower of two; 0: of none. */
static double median_ms(const json_t *ranks)
{
	size_t n = 0, i;
	const json_t *rank;
	AUTO_FREE double *ms = calloc(json_array_size(ranks) + 1, sizeof(*ms));
	if (!ms)
		return 0;
	json_array_foreach(ranks, i, rank)
	{
		const json_t *median = field(field(rank, "steps"), "median_ms");
		if (json_is_number(median))
			ms[n++] = json_number_value(median);
	}
	doubles_sort(ms, n);
	return n ? ms[(n - 1) / 2] : 0;
}

/* The value, or null: a daemon of another version may leave out what this one knows. */
static void take(json_t *to, const json_t *from, const char *key)
{
	json_t *value = json_object_get(from, key);
	json_object_set_new(to, key, value ? json_deep_copy(value) : json_null());
}

static json_t *rank_of(const json_t *rank, double middle_ms)
{
	static const char *const keys[] = {"rank",       "state",       "waits",     "step", "phase",
					   "collective", "beat_age_ms", "straggler", "loss"};
	const json_t *median = field(field(rank, "steps"), "median_ms");
	json_t *to = json_pack("{s:s}", "doing", ranks_doing(rank));
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		take(to, rank, keys[i]);
	bool known = json_is_number(median) && middle_ms > 0;
	json_object_set_new(to, "step_ms", json_is_number(median) ? json_deep_copy(median) : json_null());
	json_object_set_new(to, "deviation",
			    known ? json_real(json_number_value(median) / middle_ms - 1) : json_null());
	return to;
}

json_t *ranks_job(const json_t *job)
{
	static const char *const keys[] = {"name", "state", "world", "epoch", "stragglers", "standstill", "loss"};
	const json_t *ranks = field(job, "ranks"), *rank;
	double middle_ms = median_ms(ranks);
	json_t *list = json_array(), *to = json_object();
	size_t i;
	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		take(to, job, keys[i]);
	json_array_foreach(ranks, i, rank) json_array_append_new(list, rank_of(rank, middle_ms));
	json_object_set_new(to, "step_ms", middle_ms > 0 ? json_real(middle_ms) : json_null());
	json_object_set_new(to, "ranks", list);
	return to;
}
