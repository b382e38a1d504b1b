/* ckpt halt: a job makes a last checkpoint and ends, now or later. */
#include "frame/amount.h"
#include "frame/order.h"
#include "frame/progress.h"

#include "base/clock.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

enum { DAY_S = 86400, WAIT_MAX_S = 10000000 };

/* Seconds since 1970, by the local clock unless it ends in Z; a time of day is the next such. -1: not understood. */
static time_t parse_time(const char *text)
{
	static const char *const formats[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%H:%M:%S", "%H:%M"};
	time_t now = (time_t)(clock_wall() / CLOCK_NS_PER_S);
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
		struct tm tm;
		bool of_day = formats[i][1] == 'H';
		localtime_r(&now, &tm);
		tm.tm_sec = 0;
		const char *end = strptime(text, formats[i], &tm);
		bool utc = end && !strcmp(end, "Z") && !of_day;
		if (!end || (*end && !utc))
			continue;
		tm.tm_isdst = -1;
		time_t at = utc ? timegm(&tm) : mktime(&tm);
		return of_day && at <= now ? at + DAY_S : at;
	}
	return -1;
}

static int choose(const struct cli *cli, enum wire_command_kind *kind, uint64_t *at_ns)
{
	const char *before = cli_text(cli, "before");
	int n = cli_flag(cli, "now") + cli_flag(cli, "after-next") + cli_flag(cli, "cancel") + (before != NULL);
	if (n > 1)
		return cli_fail(cli, EXIT_USAGE, "give only one of --now, --after-next, --before TIME and --cancel");
	if (!n)
		return cli_fail(cli, EXIT_USAGE, "say when: one of --now, --after-next, --before TIME; or --cancel");
	*kind = cli_flag(cli, "now")          ? COMMAND_HALT
		: cli_flag(cli, "after-next") ? COMMAND_HALT_AFTER
		: before                      ? COMMAND_HALT_BEFORE
					      : COMMAND_GO_ON;
	time_t at = before ? parse_time(before) : 0;
	if (at < 0)
		return cli_fail(cli, EXIT_USAGE,
				"--before %s: a time is 18:30, 18:30:15, 2026-01-31T18:30 or 2026-01-31T18:30:15Z",
				before);
	*at_ns = (uint64_t)at * CLOCK_NS_PER_S;
	return EXIT_OK;
}

/* No process of it is left and no launcher, which may be about to start some again; or it is no longer known. */
static bool has_ended(const json_t *doc, const char *name)
{
	const json_t *job = order_job(doc, name);
	const char *state = json_string_value(json_object_get(job, "state"));
	return !job || (state && !strcmp(state, "dormant"));
}

/* A daemon that ckpt run has started ends with the job, and its socket with it. One that is there and does not answer says nothing. */
static bool look(const struct cli *cli, const char *name, struct err *silent)
{
	json_t *doc;
	*silent = (struct err){0};
	int rc = order_ask(cli, &doc, silent);
	bool ended = rc ? rc == -ENOENT : has_ended(doc, name);
	json_decref(doc);
	return ended;
}

static int wait_for_end(const struct cli *cli, const char *name, uint64_t seconds)
{
	uint64_t deadline = clock_deadline(seconds * CLOCK_NS_PER_S);
	struct err silent;
	cli_catch_interrupt();
	while (!look(cli, name, &silent)) {
		int rc = order_pause(deadline);
		if (rc == -ECANCELED)
			return cli_fail(cli, EXIT_CANCELLED,
					"no longer waiting; what was asked stays asked (--cancel)");
		if (rc)
			return cli_fail(cli, EXIT_FAILED, "job %s has not ended after %" PRIu64 " s%s%s", name, seconds,
					silent.text[0] ? ": " : "", silent.text);
	}
	return EXIT_OK;
}

static int run(struct cli *cli)
{
	enum wire_command_kind kind = COMMAND_HALT;
	struct wire_answer answer;
	uint64_t at_ns = 0, seconds;
	int code = amount_time(cli, "wait", AMOUNT_S, 0, 0, WAIT_MAX_S, &seconds);
	if (!code)
		code = choose(cli, &kind, &at_ns);
	if (!code)
		code = order_give(cli, &(struct wire_command){.kind = kind, .at_ns = at_ns}, &answer);
	if (code)
		return code;
	if (!cli->json)
		out(TONE_PLAIN, "%s\n", answer.text);
	if (seconds)
		code = wait_for_end(cli, answer.job, seconds);
	if (code || !cli->json)
		return code;
	json_t *doc = json_document(cli);
	json_object_set_new(doc, "job", json_text(answer.job));
	json_object_set_new(doc, "text", json_text(answer.text));
	json_object_set_new(doc, "ended", seconds ? json_true() : json_null());
	json_emit(doc);
	return EXIT_OK;
}

static const struct option_spec options[] = {
	ORDER_OPTIONS,
	{"now", OPTION_FLAG, NULL, "ask the ranks at once"},
	{"after-next", OPTION_FLAG, NULL, "ask them when the next checkpoint is durable"},
	{"before", OPTION_TEXT, "TIME",
	 "ask them early enough to have ended by then: 18:30, 2026-01-31T18:30, …T18:30:00Z"},
	{"cancel", OPTION_FLAG, NULL, "take back what was asked, if it has not begun"},
	{"wait", OPTION_TEXT, "TIME", "wait so long for the end of the job: 90, 5m (default: do not wait)"},
	{NULL},
};

const struct command command_halt = {
	.name = "halt",
	.summary = "let a job make a last checkpoint and end cleanly",
	.detail =
		"The ranks learn it from ckpt_should_stop, as they do of SIGTERM to ckpt run. A loop that does not\n"
		"ask goes on. For --before the daemon leaves room for a step and a save, each twice as long as 99% of\n"
		"them were, and 5 seconds. A time that is too near is refused. What was asked for later is lost when\n"
		"ckptd ends.",
	.args = "",
	.no_repo = true,
	.options = options,
	.run = run,
};
