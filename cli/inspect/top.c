/* ckpt top: the status page for a terminal. */
#include "inspect/top.h"
#include "frame/live.h"
#include "frame/state.h"

#include "base/clock.h"

#define ANSWER_NS (5 * CLOCK_NS_PER_S)

static void draw(void *arg, int rows)
{
	struct err err = {""};
	json_t *doc;
	if (state_ask(arg, &doc, &err))
		out(TONE_BAD, "%s\n", err.text);
	else
		top_draw(doc, rows);
	json_decref(doc);
}

static void once(const struct cli *cli, json_t *doc)
{
	if (!cli->json) {
		top_draw(doc, 0);
		return;
	}
	json_object_set_new(doc, "command", json_string(cli->command->name));
	json_emit(json_incref(doc));
}

static int run(struct cli *cli)
{
	struct err err = {""};
	struct state_of of;
	struct live live = {.draw = draw, .arg = &of};
	json_t *doc;
	int code = live_interval(cli, &live.every_ms);
	if (!code)
		code = state_of(cli, ANSWER_NS, &of);
	if (code)
		return code;
	code = state_ask(&of, &doc, &err);
	if (code)
		return cli_fail(cli, code, "%s", err.text);
	if (cli_flag(cli, "once") || !live_possible(cli))
		once(cli, doc);
	else
		code = live_run(cli, &live);
	json_decref(doc);
	return code;
}

static const struct option_spec options[] = {
	CONTACT_SOCKET_OPTION,
	CONTACT_USER_OPTION,
	LIVE_INTERVAL_OPTION,
	{"once", OPTION_FLAG, NULL, "one picture, and the end; so it is where there is no terminal"},
	{NULL},
};

const struct command command_top = {
	.name = "top",
	.summary = "watch the daemon of this node: health, jobs, ranks, saves, recoveries",
	.detail = "The status page for a terminal. q or an interrupt ends it. With --json: the document of\n"
		  "ckpt status. Ends with 12 when no daemon answers at the beginning.",
	.args = "",
	.no_repo = true,
	.options = options,
	.run = run,
};
