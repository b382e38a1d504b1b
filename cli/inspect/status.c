#include "frame/field.h"
#include "frame/state.h"

#include "base/bytes.h"
#include "base/clock.h"

#include <inttypes.h>
#include <string.h>

static void number_cell(struct table *t, const json_t *object, const char *key, const char *unit)
{
	if (json_is_integer(json_object_get(object, key)))
		table_cell(t, TONE_PLAIN, "%" PRId64 "%s", field_number(object, key), unit);
	else
		table_cell(t, TONE_DIM, "-");
}

/* Of the rank's arena. */
static void pages_cell(struct table *t, const json_t *rank)
{
	if (json_is_integer(json_object_get(rank, "page_bytes")))
		table_cell(t, TONE_PLAIN, "%" PRId64 " KiB", field_number(rank, "page_bytes") / 1024);
	else
		table_cell(t, TONE_DIM, "-");
}

static void print_ranks(const json_t *ranks)
{
	static const struct column columns[] = {
		{"RANK", ALIGN_RIGHT}, {"STATE", ALIGN_LEFT},      {"PID", ALIGN_RIGHT},   {"STEP", ALIGN_RIGHT},
		{"PHASE", ALIGN_LEFT}, {"HEARTBEAT", ALIGN_RIGHT}, {"PAGES", ALIGN_RIGHT},
	};
	struct table *t = table_new(columns, sizeof(columns) / sizeof(columns[0]));
	size_t i;
	json_t *rank;
	json_array_foreach(ranks, i, rank)
	{
		bool hung = json_is_true(json_object_get(rank, "hung"));
		bool absent = !strcmp(field_text(rank, "state"), "absent");
		number_cell(t, rank, "rank", "");
		table_cell(t,
			   hung     ? TONE_BAD
			   : absent ? TONE_WARN
				    : TONE_PLAIN,
			   "%s%s", field_text(rank, "state"), hung ? ", hangs" : "");
		number_cell(t, rank, "pid", "");
		number_cell(t, rank, "step", "");
		table_cell(t, TONE_PLAIN, "%s", field_text(rank, "phase"));
		number_cell(t, rank, "beat_age_ms", " ms ago");
		pages_cell(t, rank);
	}
	table_print(t);
}

static void print_snapshots(const json_t *snapshots)
{
	static const struct column columns[] = {
		{"STEP", ALIGN_RIGHT}, {"EPOCH", ALIGN_RIGHT}, {"STATE", ALIGN_LEFT}, {"ERROR", ALIGN_LEFT}};
	if (!json_array_size(snapshots))
		return;
	struct table *t = table_new(columns, sizeof(columns) / sizeof(columns[0]));
	size_t i;
	json_t *s;
	json_array_foreach(snapshots, i, s)
	{
		bool failed = json_is_string(json_object_get(s, "error"));
		number_cell(t, s, "step", "");
		number_cell(t, s, "epoch", "");
		table_cell(t, failed ? TONE_BAD : TONE_PLAIN, "%s", field_text(s, "state"));
		table_cell(t, TONE_PLAIN, "%s", failed ? field_text(s, "error") : "");
	}
	out(TONE_PLAIN, "\n");
	table_print(t);
}

/* Of a job that is not replicated nothing. */
static void print_copies(const json_t *job)
{
	const json_t *copies = json_object_get(job, "copies");
	const json_t *newest = json_object_get(json_object_get(job, "saves"), "replicated");
	const char *node, *between = " on ";
	json_t *ranks;
	if (!json_is_object(copies))
		return;
	if (json_is_integer(json_object_get(newest, "step")))
		out(TONE_PLAIN, "replicated: step %" PRId64 " (epoch %" PRId64 ")", field_number(newest, "step"),
		    field_number(newest, "epoch"));
	else
		out(TONE_PLAIN, "replicated: none");
	if (json_is_integer(json_object_get(copies, "step")))
		out(TONE_PLAIN, "; of step %" PRId64 ", %" PRId64 " of %" PRId64 " copies",
		    field_number(copies, "step"), field_number(copies, "held"), field_number(copies, "wanted"));
	json_object_foreach(json_object_get(copies, "holders"), node, ranks)
	{
		out(TONE_PLAIN, "%s%s", between, node);
		between = ", ";
	}
	out(TONE_PLAIN, "\n");
}

static void print_tier(const json_t *interval, const char *name)
{
	const json_t *t = json_object_get(interval, name);
	if (!field_number(t, "every"))
		return;
	out(TONE_PLAIN,
	    "interval: to %s every %" PRId64 " steps (by %s); a save costs %.3g s (%s), %.3g h between failures (%s)\n",
	    name, field_number(t, "every"), field_text(t, "decided_by"),
	    json_number_value(json_object_get(t, "cost_s")), field_text(t, "cost_from"),
	    json_number_value(json_object_get(t, "mtbf_s")) / 3600, field_text(t, "mtbf_from"));
}

static void print_job(const json_t *job)
{
	const json_t *recoveries = json_object_get(job, "recoveries"), *last = json_object_get(recoveries, "last");
	out(TONE_HEAD, "\njob %s", field_text(job, "name"));
	out(TONE_PLAIN, ": %s, world size %" PRId64 ", epoch %" PRId64 "\n", field_text(job, "state"),
	    field_number(job, "world"), field_number(job, "epoch"));
	out(TONE_PLAIN, "checkpoints since the daemon started: %" PRId64 " committed, %" PRId64 " failed\n",
	    field_number(job, "committed"), field_number(job, "failed"));
	if (json_is_object(last))
		out(TONE_PLAIN,
		    "restores: %" PRId64 ", the last to step %" PRId64 " (epoch %" PRId64 ") from %s in %.1f ms\n",
		    field_number(recoveries, "count"), field_number(last, "step"), field_number(last, "epoch"),
		    field_text(last, "source"), json_number_value(json_object_get(last, "ms")));
	print_tier(json_object_get(job, "interval"), "memory");
	print_tier(json_object_get(job, "interval"), "storage");
	print_copies(job);
	print_ranks(json_object_get(job, "ranks"));
	print_snapshots(json_object_get(job, "snapshots"));
}

static void print_status(const json_t *doc)
{
	const json_t *memory = json_object_get(doc, "memory"), *jobs = json_object_get(doc, "jobs");
	const char *store = json_string_value(json_object_get(doc, "store"));
	char used[16], limit[16];
	out(TONE_HEAD, "ckptd %s", field_text(doc, "version"));
	out(TONE_PLAIN, " on %s, up %.0f s\n", field_text(doc, "node"),
	    json_number_value(json_object_get(doc, "uptime_s")));
	out(TONE_PLAIN, "store: %s\n", store ? store : "none (memory only)");
	out(TONE_PLAIN, "memory: %s of %s in arenas\n",
	    bytes_human(used, sizeof(used), (uint64_t)field_number(memory, "used")),
	    bytes_human(limit, sizeof(limit), (uint64_t)field_number(memory, "limit")));
	size_t i;
	json_t *job;
	if (!json_array_size(jobs))
		out(TONE_DIM, "no jobs\n");
	json_array_foreach(jobs, i, job) print_job(job);
}

/* What a service for all users shows root. */
static void print_users(const json_t *doc)
{
	static const struct column columns[] = {
		{"USER", ALIGN_LEFT},   {"STATE", ALIGN_LEFT},   {"PID", ALIGN_RIGHT}, {"MEMORY", ALIGN_RIGHT},
		{"LIMIT", ALIGN_RIGHT}, {"STARTS", ALIGN_RIGHT}, {"ERROR", ALIGN_LEFT}};
	const json_t *memory = json_object_get(doc, "memory"), *users = json_object_get(doc, "users");
	char used[16], limit[16];
	out(TONE_HEAD, "ckptd %s", field_text(doc, "version"));
	out(TONE_PLAIN, " on %s, up %.0f s, for all users\n", field_text(doc, "node"),
	    json_number_value(json_object_get(doc, "uptime_s")));
	out(TONE_PLAIN, "memory: %s of %s\n\n", bytes_human(used, sizeof(used), (uint64_t)field_number(memory, "used")),
	    bytes_human(limit, sizeof(limit), (uint64_t)field_number(memory, "limit")));
	struct table *t = table_new(columns, sizeof(columns) / sizeof(columns[0]));
	size_t i;
	json_t *user;
	json_array_foreach(users, i, user)
	{
		uint64_t most = (uint64_t)field_number(user, "memory_limit_bytes");
		bool served = !strcmp(field_text(user, "state"), "served");
		table_cell(t, TONE_PLAIN, "%s", field_text(user, "name"));
		table_cell(t, served ? TONE_PLAIN : TONE_WARN, "%s", field_text(user, "state"));
		number_cell(t, user, "pid", "");
		table_cell(t, TONE_PLAIN, "%s",
			   bytes_human(used, sizeof(used), (uint64_t)field_number(user, "memory_bytes")));
		table_cell(t, TONE_PLAIN, "%s", most ? bytes_human(limit, sizeof(limit), most) : "-");
		number_cell(t, user, "starts", "");
		const char *error = json_string_value(json_object_get(user, "error"));
		table_cell(t, TONE_PLAIN, "%s", error ? error : "");
	}
	table_print(t);
}

/* ---- the command ----------------------------------------------------------------------------------------------- */

static int run(struct cli *cli)
{
	struct err err = {""};
	struct state_of of;
	json_t *doc;
	uint64_t ms;
	int code = contact_timeout(cli, &ms);
	if (!code)
		code = state_of(cli, ms * CLOCK_NS_PER_MS, &of);
	if (code)
		return code;
	code = state_ask_any(&of, &doc, &err);
	if (code)
		return cli_fail(cli, code, "%s", err.text);
	if (cli->json) {
		json_object_set_new(doc, "command", json_string(cli->command->name));
		json_emit(doc);
		return EXIT_OK;
	}
	if (json_is_array(json_object_get(doc, "users")))
		print_users(doc);
	else
		print_status(doc);
	json_decref(doc);
	return EXIT_OK;
}

static const struct option_spec options[] = {
	CONTACT_SOCKET_OPTION,
	CONTACT_USER_OPTION,
	CONTACT_TIMEOUT_OPTION,
	{NULL},
};

const struct command command_status = {
	.name = "status",
	.summary = "show what the daemon of this node is doing: jobs, ranks, snapshots",
	.detail = "With --json: the daemon's own document, schema 1. Ends with 12 when no daemon answers.",
	.args = "",
	.no_repo = true,
	.options = options,
	.run = run,
};
