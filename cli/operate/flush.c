/* ckpt flush: what is newest in memory goes to storage now, and is waited for. */
#include "frame/amount.h"
#include "frame/order.h"
#include "frame/progress.h"

#include "base/clock.h"

#include <inttypes.h>
#include <string.h>

enum { TIMEOUT_S = 600, TIMEOUT_MAX_S = 1000000 };
/* An order of the node that decides what is written has come long before. */
#define IDLE_NS (10 * CLOCK_NS_PER_S)

/* It, or a newer one, which *id is then: the node that decides what is written may have captured one meanwhile. */
static bool is_durable(const json_t *job, struct step_id *id)
{
	const json_t *durable = json_object_get(json_object_get(job, "saves"), "durable");
	if (!json_is_integer(json_object_get(durable, "step")) || step_compare(order_id(durable), *id) < 0)
		return false;
	*id = order_id(durable);
	return true;
}

/* 0: durable, and answer->id says which; EXIT_FAILED with the reason; -1: not yet. *busy_ns: when something was to be written last. */
static int look(const struct cli *cli, struct wire_answer *answer, uint64_t *busy_ns)
{
	json_t *doc = order_look(cli);
	const json_t *job = doc ? order_job(doc, answer->job) : NULL;
	const char *why = job ? order_failure(job, answer->id) : NULL;
	int code = -1;
	if (!doc)
		code = cli_fail(cli, EXIT_NO_DAEMON, "the daemon has gone; look with ckpt list");
	else if (!job)
		code = cli_fail(cli, EXIT_FAILED, "job %s has ended; look with ckpt list", answer->job);
	else if (is_durable(job, &answer->id))
		code = EXIT_OK;
	else if (why)
		code = cli_fail(cli, EXIT_FAILED, "step %" PRIu64 " of job %s: %s", answer->id.step, answer->job, why);
	else if (!order_idle(job))
		*busy_ns = clock_now();
	else if (clock_now() - *busy_ns > IDLE_NS)
		code = cli_fail(cli, EXIT_FAILED,
				"step %" PRIu64
				" of job %s is not written: the node that decides it, that of rank 0, does "
				"not have it, or is not there",
				answer->id.step, answer->job);
	json_decref(doc);
	return code;
}

static int report(const struct cli *cli, const struct wire_answer *answer, uint64_t took_ns)
{
	if (!cli->json) {
		out(TONE_PLAIN, "%s: step %" PRIu64 ", epoch %u is durable\n", answer->job, answer->id.step,
		    answer->id.epoch);
		return EXIT_OK;
	}
	json_t *doc = json_document(cli);
	json_object_set_new(doc, "job", json_text(answer->job));
	json_object_set_new(doc, "step", json_integer((json_int_t)answer->id.step));
	json_object_set_new(doc, "epoch", json_integer(answer->id.epoch));
	json_object_set_new(doc, "elapsed_ns", json_integer((json_int_t)took_ns));
	json_emit(doc);
	return EXIT_OK;
}

static int run(struct cli *cli)
{
	struct wire_answer answer;
	uint64_t seconds, began = clock_now();
	int code = amount_time(cli, "timeout", AMOUNT_S, TIMEOUT_S, 0, TIMEOUT_MAX_S, &seconds);
	if (code)
		return code;
	code = order_give(cli, &(struct wire_command){.kind = COMMAND_FLUSH}, &answer);
	if (code)
		return code;
	cli_catch_interrupt();
	uint64_t deadline = clock_deadline(seconds * CLOCK_NS_PER_S), busy_ns = clock_now();
	while ((code = look(cli, &answer, &busy_ns)) < 0) {
		int rc = order_pause(deadline);
		if (rc == -ECANCELED)
			return cli_fail(cli, EXIT_CANCELLED, "no longer waiting; step %" PRIu64 " is still written",
					answer.id.step);
		if (rc)
			return cli_fail(cli, EXIT_FAILED, "step %" PRIu64 " is not durable after %" PRIu64 " s",
					answer.id.step, seconds);
	}
	return code ? code : report(cli, &answer, clock_now() - began);
}

static const struct option_spec options[] = {
	ORDER_OPTIONS,
	{"timeout", OPTION_TEXT, "TIME", "how long to wait until it is durable (default 600: seconds)"},
	{NULL},
};

const struct command command_flush = {
	.name = "flush",
	.summary = "write the newest snapshot in memory to storage now",
	.detail =
		"Call it before maintenance, for example. Waits until that snapshot, or a newer one, is durable, and\n"
		"says which. Nothing is asked of the ranks: what they captured last is written, whatever the setting\n"
		"persist-every says.",
	.args = "",
	.no_repo = true,
	.options = options,
	.run = run,
};
