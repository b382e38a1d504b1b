#include "frame/order.h"
#include "frame/progress.h"

#include "base/clock.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_MS = 5000, PAUSE_MS = 50 };

int order_again(const struct cli *cli, const struct wire_command *what, struct wire_answer *answer, bool *gone,
		struct err *err)
{
	struct wire_command command = *what;
	char path[CONTACT_PATH_MAX];
	bool refused = false;
	memcpy(command.job, answer->job, sizeof(command.job));
	int rc = contact_path(cli_text(cli, "socket"), path, err);
	if (!rc)
		rc = contact_command(path, cli_text(cli, "user"), &command, clock_deadline(ANSWER_MS * CLOCK_NS_PER_MS),
				     answer, &refused, err);
	*gone = rc && !refused;
	return rc;
}

int order_give(const struct cli *cli, const struct wire_command *what, struct wire_answer *answer)
{
	struct err err = {""};
	char path[CONTACT_PATH_MAX];
	bool gone;
	const char *job = cli_text(cli, "job");
	if (!job)
		job = getenv("CKPT_JOB");
	if (job && *job && name_check("job", job, sizeof(answer->job), &err))
		return cli_fail(cli, EXIT_USAGE, "%s", err.text);
	*answer = (struct wire_answer){0};
	snprintf(answer->job, sizeof(answer->job), "%s", job ? job : "");
	if (contact_path(cli_text(cli, "socket"), path, &err))
		return cli_fail(cli, EXIT_USAGE, "%s", err.text);
	if (!order_again(cli, what, answer, &gone, &err))
		return EXIT_OK;
	return cli_fail(cli, gone ? EXIT_NO_DAEMON : EXIT_FAILED, "%s", err.text);
}

int order_ask(const struct cli *cli, json_t **doc, struct err *err)
{
	char path[CONTACT_PATH_MAX];
	*doc = NULL;
	int rc = contact_path(cli_text(cli, "socket"), path, err);
	return rc ? rc
		  : contact_status(path, cli_text(cli, "user"), clock_deadline(ANSWER_MS * CLOCK_NS_PER_MS), doc, err);
}

json_t *order_look(const struct cli *cli)
{
	json_t *doc;
	order_ask(cli, &doc, NULL);
	return doc;
}

const json_t *order_job(const json_t *doc, const char *name)
{
	size_t i;
	const json_t *job;
	json_array_foreach(json_object_get(doc, "jobs"), i, job)
	{
		const char *is = json_string_value(json_object_get(job, "name"));
		if (is && !strcmp(is, name))
			return job;
	}
	return NULL;
}

struct step_id order_id(const json_t *object)
{
	return (struct step_id){.step = (uint64_t)json_integer_value(json_object_get(object, "step")),
				.epoch = (uint32_t)json_integer_value(json_object_get(object, "epoch"))};
}

static bool is_set(const json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}

const char *order_failure(const json_t *job, struct step_id id)
{
	size_t i;
	const json_t *snapshot;
	bool gave_way = false;
	json_array_foreach(json_object_get(job, "snapshots"), i, snapshot) /* in their order */
	{
		int order = step_compare(order_id(snapshot), id);
		if (order < 0 || (order > 0 && !gave_way))
			continue;
		if (is_set(snapshot, "to_storage"))
			return NULL;
		if (!is_set(snapshot, "stays") && !json_is_null(json_object_get(snapshot, "error")))
			return json_string_value(json_object_get(snapshot, "error"));
		gave_way |= is_set(snapshot, "stays");
	}
	return NULL;
}

bool order_idle(const json_t *job)
{
	size_t i;
	const json_t *snapshot;
	json_array_foreach(json_object_get(job, "snapshots"), i, snapshot)
	{
		if (is_set(snapshot, "to_storage"))
			return false;
	}
	return true;
}

int order_pause(uint64_t deadline)
{
	if (cli_interrupted())
		return -ECANCELED;
	if (clock_now() >= deadline)
		return -ETIMEDOUT;
	poll(NULL, 0, PAUSE_MS); /* a signal ends it */
	return 0;
}
