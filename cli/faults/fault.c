/* ckpt fault: the catalogue of faults on purpose, and one of them in a running job. */
#include "faults/fault_request.h"
#include "frame/amount.h"
#include "frame/contact.h"
#include "frame/order.h"
#include "frame/output.h"
#include "frame/progress.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/number.h"
#include "config/value.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_S = 60, TIMEOUT_MAX_S = 86400, LOSS_DEFAULT = 5, LOSS_MAX = 90, LINK_MAX_MS = 600000 };

/* ---- the catalogue ----------------------------------------------------------------------------------------------- */

static const char *time_name(enum fault_time time)
{
	return time == FAULT_TIME_MUST ? "needed" : time == FAULT_TIME_MAY ? "allowed" : "none";
}

static json_t *entry_json(const struct fault_entry *f)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:b, s:s, s:o, s:s, s:s, s:I, s:o}", "name", f->name, "target",
			 fault_target_name(f->target), "actor", fault_actor_name(f->actor), "time", time_name(f->time),
			 "run", f->run, "does", f->does, "needs", *f->needs ? json_string(f->needs) : json_null(),
			 "fired", f->fired, "expected", f->expected, "fires_ms", (json_int_t)f->fires_ms, "expected_ms",
			 f->expected_ms ? json_integer(f->expected_ms) : json_null());
}

static int list(const struct cli *cli)
{
	static const struct column columns[] = {{"KIND", ALIGN_LEFT}, {"TARGET", ALIGN_LEFT}, {"DOES", ALIGN_LEFT}};
	json_t *faults = json_array();
	struct table *t = cli->json ? NULL : table_new(columns, 3);
	for (const struct fault_entry *f = fault_catalogue; f->kind; f++) {
		json_array_append_new(faults, entry_json(f));
		if (!t)
			continue;
		table_cell(t, TONE_PLAIN, "%s", f->name);
		table_cell(t, TONE_PLAIN, "%s", fault_target_name(f->target));
		table_cell(t, TONE_PLAIN, "%s", f->does);
	}
	if (t) {
		table_print(t);
		json_decref(faults);
		return EXIT_OK;
	}
	json_t *doc = json_document(cli);
	json_object_set_new(doc, "faults", faults);
	json_emit(doc);
	return EXIT_OK;
}

/* ---- one of them ------------------------------------------------------------------------------------------------- */

static int read_number(const struct cli *cli, const char *text, uint64_t max, uint64_t *n)
{
	if (!number_parse(text, max, n))
		return cli_fail(cli, EXIT_USAGE, "%s: a number from 0 to %" PRIu64 " is wanted", text, max);
	return EXIT_OK;
}

/* TARGET, by what the fault is aimed at. */
static int read_target(const struct cli *cli, struct fault_request *q)
{
	const char *text = cli->nargs > 1 ? cli->args[1] : NULL;
	const char *what = fault_target_name(q->entry->target);
	struct err err = {""};
	uint64_t n = 0;
	int code = EXIT_OK;
	switch (q->entry->target) {
	case FAULT_AT_RANK:
		if (!text)
			return cli_fail(cli, EXIT_USAGE, "which rank? ckpt fault %s RANK", q->entry->name);
		code = read_number(cli, text, RANK_MAX - 1, &n);
		q->rank = (uint32_t)n;
		return code;
	case FAULT_AT_CHECKPOINT:
		q->step = UINT64_MAX;
		return text && strcmp(text, "latest") != 0 ? read_number(cli, text, STEP_MAX, &q->step) : EXIT_OK;
	case FAULT_AT_NODE:
		if (q->entry->actor == FAULT_BY_DAEMON)
			return text ? cli_fail(cli, EXIT_USAGE, "%s hits the daemon's own node: it takes no target",
					       q->entry->name)
				    : EXIT_OK;
		if (!text)
			return cli_fail(cli, EXIT_USAGE, "which node? ckpt fault %s NODE", q->entry->name);
		q->node = text;
		return name_check("node", text, NAME_NODE_MAX, &err) ? cli_fail(cli, EXIT_USAGE, "%s", err.text)
								     : EXIT_OK;
	default:
		return text ? cli_fail(cli, EXIT_USAGE, "%s is a fault of the %s: it takes no target", q->entry->name,
				       what)
			    : EXIT_OK;
	}
}

static int read_time(const struct cli *cli, struct fault_request *q)
{
	int code = amount_time(cli, "for", AMOUNT_MS, 0, 1, FAULT_TIME_MAX_MS, &q->for_ms);
	const char *given = cli_text(cli, "for");
	if (code)
		return code;
	if (given && q->entry->time == FAULT_TIME_NONE)
		return cli_fail(cli, EXIT_USAGE, "%s takes no --for", q->entry->name);
	if (!q->for_ms && q->entry->time == FAULT_TIME_MUST)
		return cli_fail(cli, EXIT_USAGE, "for how long? %s needs --for TIME", q->entry->name);
	return EXIT_OK;
}

/* "-1h" is an hour behind. */
static int read_jump(const struct cli *cli, struct fault_request *q)
{
	const struct setting kind = {.type = SETTING_DURATION, .min = 1000, .max = FAULT_JUMP_MAX_S * 1000ull};
	const char *text = cli_text(cli, "by");
	struct value value = {0};
	struct err err = {""};
	if (!text)
		return EXIT_OK;
	bool behind = *text == '-';
	if (q->entry->kind != FAULT_CLOCK_JUMP)
		return cli_fail(cli, EXIT_USAGE, "%s takes no --by", q->entry->name);
	if (value_parse(&kind, text + behind, &value, &err))
		return cli_fail(cli, EXIT_USAGE, "--by: %s", err.text);
	q->by_s = (int32_t)(value.number / 1000) * (behind ? -1 : 1);
	return EXIT_OK;
}

/* Which interface, and of link-loss how much. */
static int read_link(const struct cli *cli, struct fault_request *q)
{
	bool network = q->entry->target == FAULT_AT_NETWORK, loss = q->entry->kind == FAULT_LINK_LOSS;
	uint64_t percent = cli_number(cli, "percent", LOSS_DEFAULT);
	q->interface = cli_text(cli, "interface");
	q->percent = (uint32_t)percent;
	if (!network && q->interface)
		return cli_fail(cli, EXIT_USAGE, "%s takes no --interface", q->entry->name);
	if (network && !q->interface)
		return cli_fail(cli, EXIT_USAGE, "of which interface? %s needs --interface NAME", q->entry->name);
	if (!loss && cli_text(cli, "percent"))
		return cli_fail(cli, EXIT_USAGE, "%s takes no --percent", q->entry->name);
	if (loss && (percent < 1 || percent > LOSS_MAX))
		return cli_fail(cli, EXIT_USAGE, "--percent: a number from 1 to %d is wanted", LOSS_MAX);
	if (network && q->for_ms > LINK_MAX_MS)
		return cli_fail(cli, EXIT_USAGE, "--for: %s lasts 10 minutes at most", q->entry->name);
	return EXIT_OK;
}

static int read_request(const struct cli *cli, struct fault_request *q, char path[CONTACT_PATH_MAX])
{
	const char *kind = cli->args[0], *job = cli_text(cli, "job");
	struct err err = {""};
	if (!job)
		job = getenv("CKPT_JOB");
	*q = (struct fault_request){.entry = fault_find(kind, strlen(kind)),
				    .socket = path,
				    .user = cli_text(cli, "user"),
				    .job = job ? job : "",
				    .store = cli_text(cli, "store"),
				    .seed = cli_number(cli, "seed", 0)};
	if (!q->entry)
		return cli_fail(cli, EXIT_USAGE, "there is no fault '%s': ckpt fault list names them", kind);
	if (q->entry->actor == FAULT_BY_CAMPAIGN)
		return cli_fail(cli, EXIT_USAGE, "%s: " FAULT_NEEDS_NETWORK, kind);
	if (*q->job && name_check("job", q->job, NAME_JOB_MAX, &err))
		return cli_fail(cli, EXIT_USAGE, "%s", err.text);
	if (contact_path(cli_text(cli, "socket"), path, &err))
		return cli_fail(cli, EXIT_USAGE, "%s", err.text);
	int code = read_target(cli, q);
	if (!code)
		code = read_jump(cli, q);
	if (!code)
		code = read_time(cli, q);
	return code ? code : read_link(cli, q);
}

static int await(const struct cli *cli, struct fault_request *q, struct fault_result *result)
{
	struct err err = {""};
	bool refused = false;
	cli_catch_interrupt();
	while (result->outcome == FAULT_PENDING) {
		int rc = order_pause(q->deadline);
		if (rc == -ECANCELED)
			return cli_fail(cli, EXIT_CANCELLED, "no longer waiting; fault %u may still fire",
					result->number);
		if (rc)
			return cli_fail(cli, EXIT_PARTIAL, "fault %u has not fired in time: %s", result->number,
					result->text);
		rc = fault_look(q, result, &refused, &err);
		if (rc)
			return cli_fail(cli, refused ? EXIT_FAILED : EXIT_NO_DAEMON, "%s", err.text);
	}
	return EXIT_OK;
}

static int report(const struct cli *cli, const struct fault_request *q, const struct fault_result *result,
		  uint64_t from)
{
	bool fired = result->outcome == FAULT_FIRED;
	double ms = (double)(clock_now() - from) / 1e6;
	int code = fired ? EXIT_OK : EXIT_PARTIAL;
	if (cli->json) {
		json_t *doc = json_document(cli);
		json_object_set_new(doc, "job", json_text(result->job));
		json_object_set_new(doc, "kind", json_string(q->entry->name));
		json_object_set_new(doc, "number", json_integer(result->number));
		json_object_set_new(doc, "fired", json_boolean(fired));
		json_object_set_new(doc, "ms", json_real(ms));
		json_object_set_new(doc, "text", json_text(result->text));
		json_object_set_new(doc, "expected", json_string(q->entry->expected));
		json_emit(doc);
		return code;
	}
	if (!fired)
		return cli_fail(cli, code, "%s: %s has not fired: %s", result->job, q->entry->name, result->text);
	out(TONE_PLAIN, "%s: %s has fired after %.0f ms: %s\n", result->job, q->entry->name, ms, result->text);
	cli_note(cli, "what to expect: %s", q->entry->expected);
	return code;
}

static int run(struct cli *cli)
{
	char path[CONTACT_PATH_MAX];
	struct fault_request q;
	struct fault_result result = {0};
	struct err err = {""};
	bool refused = false;
	uint64_t seconds, from = clock_now();
	if (!strcmp(cli->args[0], "list"))
		return list(cli);
	int code = read_request(cli, &q, path);
	if (!code)
		code = amount_time(cli, "timeout", AMOUNT_S, TIMEOUT_S, 1, TIMEOUT_MAX_S, &seconds);
	if (code)
		return code;
	q.deadline = clock_deadline(seconds * CLOCK_NS_PER_S + q.for_ms * CLOCK_NS_PER_MS);
	AUTO_CLOSE int daemon = fault_ends_node(q.entry) ? fault_open_daemon(&q, NULL, NULL) : -1;
	int rc = fault_begin(&q, &result, &refused, &err);
	if (!rc && daemon >= 0)
		fault_await_daemon(&q, daemon, &result);
	if (rc)
		return cli_fail(cli, result.number || refused ? EXIT_FAILED : EXIT_NO_DAEMON, "%s", err.text);
	code = await(cli, &q, &result);
	return code ? code : report(cli, &q, &result, from);
}

static const struct option_spec options[] = {
	ORDER_OPTIONS,
	{"for", OPTION_TEXT, "TIME", "how long it lasts, or how slow in each step (a number alone: milliseconds)"},
	{"by", OPTION_TEXT, "TIME", "how far the time of day jumps ahead; -TIME: behind (default 24h)"},
	{"interface", OPTION_TEXT, "NAME", "of a fault at the network: which one of the daemon's node"},
	{"percent", OPTION_NUMBER, "N", "of link-loss: how many of a hundred packets are lost (default 5)"},
	{"seed", OPTION_NUMBER, "N",
	 "draws byte and bit of a flip, on storage also the file; or what a power cut loses (default 0)"},
	{"store", OPTION_TEXT, "DIR", "repository of a flip on storage (else the daemon's)"},
	{"timeout", OPTION_TEXT, "TIME", "how long to wait until it has fired (default 60: seconds)"},
	{NULL},
};

const struct command command_fault = {
	.name = "fault",
	.summary = "cause a fault on purpose in a running job",
	.detail = "KIND is list, which names the kinds, or one of them. TARGET is a rank, a node or the step of a\n"
		  "checkpoint, as the kind needs it. The daemon refuses unless its configuration says faults = yes.\n"
		  "Waits until the fault has been seen to fire.",
	.args = "KIND [TARGET]",
	.min_args = 1,
	.max_args = 2,
	.no_repo = true,
	.options = options,
	.run = run,
};
