/* ckpt drain: a node's ranks go to other nodes, without losing a step; it is given no more. */
#include "order.h"
#include "progress.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TIMEOUT_S = 600, TIMEOUT_MAX_S = 1000000 };

static const json_t *named(const json_t *list, const char *key, const char *name)
{
	size_t i;
	const json_t *one;
	json_array_foreach(list, i, one)
	{
		const char *is = json_string_value(json_object_get(one, key));
		if (is && !strcmp(is, name))
			return one;
	}
	return NULL;
}

/* Ranks that the node still has; 0 also when the job has ended. -1: the daemon does not answer. */
static int64_t ranks_left(const struct cli *cli, const char *job, const char *node)
{
	json_t *doc = order_look(cli);
	const json_t *crew = named(json_object_get(doc, "crews"), "job", job);
	const json_t *found = named(json_object_get(crew, "nodes"), "node", node);
	int64_t left = doc ? json_integer_value(json_object_get(found, "ranks")) : -1;
	json_decref(doc);
	return left;
}

static int await(const struct cli *cli, const struct wire_answer *answer, uint64_t seconds)
{
	uint64_t deadline = clock_deadline(seconds * CLOCK_NS_PER_S);
	const char *node = cli->args[0];
	int64_t left;
	cli_catch_interrupt();
	while ((left = ranks_left(cli, answer->job, node)) > 0) {
		int rc = order_pause(deadline);
		if (rc == -ECANCELED)
			return cli_fail(cli, EXIT_CANCELLED,
					"no longer waiting; node %s is still let go at the next save", node);
		if (rc)
			return cli_fail(cli, EXIT_FAILED,
					"after %" PRIu64 " s %" PRId64 " ranks of job %s are still on node %s", seconds,
					left, answer->job, node);
	}
	return left < 0 ? cli_fail(cli, EXIT_NO_DAEMON, "the daemon has gone; look with ckpt status") : EXIT_OK;
}

static int report(const struct cli *cli, const struct wire_answer *answer, bool undone)
{
	const char *node = cli->args[0];
	if (!cli->json) {
		out(TONE_PLAIN, undone ? "%s: node %s may have ranks again\n" : "%s: node %s has no ranks any more\n",
		    answer->job, node);
		return EXIT_OK;
	}
	json_t *doc = json_document(cli);
	json_object_set_new(doc, "job", json_text(answer->job));
	json_object_set_new(doc, "node", json_text(node));
	json_object_set_new(doc, "drained", json_boolean(!undone));
	json_emit(doc);
	return EXIT_OK;
}

static int run(struct cli *cli)
{
	struct wire_answer answer;
	bool undo = cli_flag(cli, "undo");
	uint64_t seconds = cli_number(cli, "timeout", TIMEOUT_S);
	if (seconds > TIMEOUT_MAX_S)
		return cli_fail(cli, EXIT_USAGE, "--timeout %" PRIu64 ": at most %d", seconds, TIMEOUT_MAX_S);
	struct wire_command command = {.kind = undo ? COMMAND_UNDRAIN : COMMAND_DRAIN};
	struct err err = {""};
	if (name_check("node", cli->args[0], sizeof(command.node), &err))
		return cli_fail(cli, EXIT_USAGE, "%s", err.text);
	snprintf(command.node, sizeof(command.node), "%s", cli->args[0]);
	int code = order_give(cli, &command, &answer);
	if (!code && !undo)
		code = await(cli, &answer, seconds);
	return code ? code : report(cli, &answer, undo);
}

static const struct option_spec options[] = {
	ORDER_OPTIONS,
	{"undo", OPTION_FLAG, NULL, "let the node have ranks again"},
	{"timeout", OPTION_NUMBER, "SECONDS", "how long to wait until it has none (default 600)"},
	{NULL},
};

const struct command command_drain = {
	.name = "drain",
	.summary = "move a job's ranks off a node",
	.detail = "Before maintenance of the node. At the job's next save its ranks go to spares, else the world "
		  "shrinks; "
		  "of jobs\n"
		  "that were started with --min-ranks or --spare. Ask the daemon that coordinates the job: that of the "
		  "first "
		  "node\n"
		  "of the roster. Waits until the node has no ranks.",
	.args = "NODE",
	.min_args = 1,
	.max_args = 1,
	.no_repo = true,
	.options = options,
	.run = run,
};
