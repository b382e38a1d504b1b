/* ckpt rollback: a job that runs goes back to an earlier checkpoint. */
#include "frame/amount.h"
#include "frame/order.h"
#include "frame/progress.h"
#include "frame/target.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TIMEOUT_S = 60, TIMEOUT_MAX_S = 1000000 };

/* The epoch that began; 0: not yet. Ranks are told of it when it is on record. */
static uint32_t epoch_after(const json_t *doc, const struct wire_answer *answer)
{
	const json_t *job = order_job(doc, answer->job);
	json_int_t epoch = json_integer_value(json_object_get(job, "epoch"));
	return epoch > answer->number ? (uint32_t)epoch : 0;
}

static int await(const struct cli *cli, const struct wire_answer *answer, uint64_t seconds, uint32_t *epoch)
{
	uint64_t deadline = clock_deadline(seconds * CLOCK_NS_PER_S);
	cli_catch_interrupt();
	for (;;) {
		json_t *doc = order_look(cli);
		bool gone = !doc || !order_job(doc, answer->job);
		*epoch = gone ? 0 : epoch_after(doc, answer);
		json_decref(doc);
		if (gone)
			return cli_fail(cli, EXIT_FAILED, "job %s has ended", answer->job);
		if (*epoch)
			return EXIT_OK;
		int rc = order_pause(deadline);
		if (rc == -ECANCELED)
			return cli_fail(cli, EXIT_CANCELLED, "no longer waiting; what was asked stays asked");
		if (rc)
			return cli_fail(cli, EXIT_FAILED,
					"job %s has begun no epoch after epoch %u within %" PRIu64
					" s: look at the log of the node that coordinates it, and ask again",
					answer->job, answer->number, seconds);
	}
}

static int report(const struct cli *cli, const struct wire_answer *answer, uint32_t epoch)
{
	if (!cli->json) {
		out(TONE_PLAIN, "%s: in epoch %u it goes on from step %" PRIu64 " of epoch %u, or an older one\n",
		    answer->job, epoch, answer->id.step, answer->id.epoch);
		return EXIT_OK;
	}
	json_t *doc = json_document(cli);
	json_object_set_new(doc, "job", json_text(answer->job));
	json_object_set_new(doc, "step", json_integer((json_int_t)answer->id.step));
	json_object_set_new(doc, "epoch", json_integer(answer->id.epoch));
	json_object_set_new(doc, "began", json_integer(epoch));
	json_emit(doc);
	return EXIT_OK;
}

/* For the job of the checkpoint, whichever one the daemon has. */
static int give(const struct cli *cli, const struct wire_command *command, const char *job, struct wire_answer *answer)
{
	struct err err = {""};
	bool gone;
	*answer = (struct wire_answer){.left = 0};
	snprintf(answer->job, sizeof(answer->job), "%s", job);
	if (!order_again(cli, command, answer, &gone, &err))
		return EXIT_OK;
	return cli_fail(cli, gone ? EXIT_NO_DAEMON : EXIT_FAILED, "%s", err.text);
}

static int run(struct cli *cli)
{
	struct wire_command command = {.kind = COMMAND_ROLLBACK};
	struct wire_answer answer;
	struct checkpoint ck;
	uint64_t seconds;
	uint32_t epoch = 0;
	int code = amount_time(cli, "timeout", AMOUNT_S, TIMEOUT_S, 0, TIMEOUT_MAX_S, &seconds);
	if (!code)
		code = cli_open(cli, &ck); /* one whose manifest is damaged is refused */
	if (code)
		return code;
	command.back.to = ck.ref.id;
	snprintf(command.back.reason, sizeof(command.back.reason), "%s",
		 cli_text(cli, "reason") ? cli_text(cli, "reason") : "ckpt rollback");
	code = give(cli, &command, ck.ref.job, &answer);
	checkpoint_close(&ck);
	if (!code)
		code = await(cli, &answer, seconds, &epoch);
	return code ? code : report(cli, &answer, epoch);
}

static const struct option_spec options[] = {
	CONTACT_SOCKET_OPTION,
	CONTACT_USER_OPTION,
	{"reason", OPTION_TEXT, "TEXT", "why: for logs, and for the record of the epoch"},
	{"timeout", OPTION_TEXT, "TIME", "how long to wait until a new epoch begins (default 60: seconds)"},
	{NULL},
};

const struct command command_rollback = {
	.name = "rollback",
	.summary = "let a job that runs go back to an earlier checkpoint",
	.detail =
		"All ranks begin a new epoch, and restore what is newest: now that is this checkpoint. What was saved\n"
		"after it is given up. It stays on storage, and can still be restored by its number. This is on "
		"record\n"
		"before the ranks are told, so that a crash brings nothing of it back. \"healthy\" is the newest\n"
		"checkpoint that training called so (ckpt_mark).",
	.args = "STEP|healthy",
	.min_args = 1,
	.max_args = 1,
	.options = options,
	.run = run,
};
