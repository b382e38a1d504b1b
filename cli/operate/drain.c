/* ckpt drain: a node's ranks go to other nodes, without losing a step; it is given no more. */
#include "frame/amount.h"
#include "frame/order.h"
#include "frame/progress.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TIMEOUT_S = 600, TIMEOUT_MAX_S = 1000000 };

/* Ranks that the node has still, if they are *known. While the coordinator is away, or learns who is there, nobody knows; *why: that, or why
 * they have not gone. */
static int look(const struct cli *cli, struct wire_answer *answer, bool *known, bool *gone, struct err *why)
{
	struct wire_command command = {.kind = COMMAND_DRAINED};
	snprintf(command.node, sizeof(command.node), "%s", cli->args[0]);
	int rc = order_again(cli, &command, answer, gone, why);
	if (!rc)
		snprintf(why->text, sizeof(why->text), "%s", answer->text);
	*known = !rc;
	return rc == -ENOTCONN || rc == -ETIMEDOUT || rc == -EBUSY || rc == -ENOENT ? 0 : rc;
}

static int await(const struct cli *cli, struct wire_answer *answer, uint64_t seconds)
{
	uint64_t deadline = clock_deadline(seconds * CLOCK_NS_PER_S);
	const char *node = cli->args[0];
	struct err why = {""};
	bool known, gone;
	cli_catch_interrupt();
	for (;;) {
		int rc = look(cli, answer, &known, &gone, &why);
		if (gone)
			return cli_fail(cli, EXIT_NO_DAEMON, "the daemon has gone; look with ckpt status");
		if (rc)
			return cli_fail(cli, EXIT_FAILED, "%s", why.text);
		if (known && !answer->left)
			return EXIT_OK;
		rc = order_pause(deadline);
		if (rc == -ECANCELED)
			return cli_fail(cli, EXIT_CANCELLED,
					"no longer waiting; node %s is still let go at the next save", node);
		if (rc && !known)
			return cli_fail(cli, EXIT_FAILED,
					"after %" PRIu64 " s it is not known whether node %s has ranks: %s", seconds,
					node, why.text);
		if (rc)
			return cli_fail(cli, EXIT_FAILED,
					"after %" PRIu64 " s %u ranks of job %s are still on node %s%s%s", seconds,
					answer->left, answer->job, node, *why.text ? ": " : "", why.text);
	}
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
	uint64_t seconds;
	int code = amount_time(cli, "timeout", AMOUNT_S, TIMEOUT_S, 0, TIMEOUT_MAX_S, &seconds);
	if (code)
		return code;
	struct wire_command command = {.kind = undo ? COMMAND_UNDRAIN : COMMAND_DRAIN};
	struct err err = {""};
	if (name_check("node", cli->args[0], sizeof(command.node), &err))
		return cli_fail(cli, EXIT_USAGE, "%s", err.text);
	snprintf(command.node, sizeof(command.node), "%s", cli->args[0]);
	code = order_give(cli, &command, &answer);
	if (!code && !undo)
		code = await(cli, &answer, seconds);
	return code ? code : report(cli, &answer, undo);
}

static const struct option_spec options[] = {
	ORDER_OPTIONS,
	{"undo", OPTION_FLAG, NULL, "let the node have ranks again"},
	{"timeout", OPTION_TEXT, "TIME", "how long to wait until it has none (default 600: seconds)"},
	{NULL},
};

const struct command command_drain = {
	.name = "drain",
	.summary = "move a job's ranks off a node",
	.detail = "Call it before maintenance of the node. At the job's next save its ranks go to spares; without\n"
		  "spares the world shrinks. Works for jobs that were started with --min-ranks or --spare. Any daemon\n"
		  "of the cluster may be asked. Waits until the node has no ranks.",
	.args = "NODE",
	.min_args = 1,
	.max_args = 1,
	.no_repo = true,
	.options = options,
	.run = run,
};
