#include "launcher/launch.h"

#include "base/clock.h"

#include <stdio.h>

static void faults_table(const struct launch *launch)
{
	static const struct column columns[] = {{"FAULT", ALIGN_LEFT}, {"RANK", ALIGN_RIGHT}, {"FIRED", ALIGN_RIGHT}};
	struct table *t = table_new(columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < launch->nfaults; i++) {
		const struct fault *f = &launch->faults[i];
		table_cell(t, TONE_PLAIN, "%s", f->text);
		if (f->kind == FAULT_KILL_DAEMON)
			table_cell(t, TONE_DIM, "-");
		else
			table_cell(t, TONE_PLAIN, "%u", f->rank);
		if (f->fired_ns)
			table_cell(t, TONE_PLAIN, "after %.3f s", (double)(f->fired_ns - launch->started_ns) / 1e9);
		else
			table_cell(t, TONE_WARN, "never");
	}
	table_print(t);
	out(TONE_PLAIN, "%zu of %zu faults fired\n", faults_fired(launch), launch->nfaults);
}

void report_print(const struct launch *launch)
{
	if (launch->nfaults) {
		out(TONE_PLAIN, "\n");
		faults_table(launch);
	}
	if (launch->recoveries.count) {
		out(TONE_PLAIN, "\n");
		recovery_table(&launch->recoveries);
	}
}

static json_t *faults_json(const struct launch *launch)
{
	json_t *list = json_array();
	for (size_t i = 0; i < launch->nfaults; i++) {
		const struct fault *f = &launch->faults[i];
		json_t *j = json_object();
		json_object_set_new(j, "fault", json_text(f->text));
		json_object_set_new(j, "kind", json_string(fault_kind_name(f->kind)));
		json_object_set_new(j, "rank", f->kind == FAULT_KILL_DAEMON ? json_null() : json_integer(f->rank));
		json_object_set_new(j, "fired", json_boolean(f->fired_ns != 0));
		json_object_set_new(j, "fired_at_s",
				    f->fired_ns ? json_real((double)(f->fired_ns - launch->started_ns) / 1e9)
						: json_null());
		json_array_append_new(list, j);
	}
	return list;
}

static json_t *ranks_json(const struct launch *launch)
{
	json_t *list = json_array();
	for (uint32_t r = 0; r < launch->nranks; r++) {
		const struct launch_rank *rank = &launch->ranks[r];
		char text[80];
		json_t *j = json_object();
		json_object_set_new(j, "rank", json_integer(rank->id));
		json_object_set_new(j, "starts", json_integer(rank->starts));
		json_object_set_new(j, "ended",
				    rank->ended ? json_text(proc_status_text(text, sizeof(text), rank->status))
						: json_null());
		json_object_set_new(j, "ok", json_boolean(rank->ended && !rank->status));
		json_array_append_new(list, j);
	}
	return list;
}

json_t *report_json(const struct launch *launch, const struct cli *cli, int code)
{
	json_t *j = json_document(cli);
	json_object_set_new(j, "job", json_text(launch->options.job));
	json_object_set_new(j, "world", json_integer(launch->world));
	json_object_set_new(j, "epoch", json_integer(launch->epoch));
	json_object_set_new(j, "exit", json_integer(code));
	json_object_set_new(j, "seconds", json_real((double)(clock_now() - launch->begin_ns) / 1e9));
	json_object_set_new(j, "restarts", json_integer(launch->budget.spent));
	json_object_set_new(j, "retired", json_integer(launch->retired));
	json_object_set_new(j, "own_daemon", json_boolean(launch->keeper.owned));
	json_object_set_new(j, "daemon_starts", json_integer(launch->keeper.starts));
	json_object_set_new(j, "ranks", ranks_json(launch));
	json_object_set_new(j, "injected", json_integer((json_int_t)launch->nfaults));
	json_object_set_new(j, "fired", json_integer((json_int_t)faults_fired(launch)));
	json_object_set_new(j, "faults", faults_json(launch));
	json_object_set_new(j, "recoveries", recovery_json(&launch->recoveries));
	json_object_set_new(j, "recovered", json_integer(launch->recoveries.count));
	return j;
}
