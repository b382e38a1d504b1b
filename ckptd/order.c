#include "order.h"

#include "base/log.h"
#include "daemon.h"
#include "halt.h"
#include "job.h"
#include "muster.h"
#include "queue.h"
#include "seat.h"

#include <stdio.h>
#include <string.h>

static const char *job_names(const struct daemon *daemon, char *dst, size_t size)
{
	size_t len = 0;
	dst[0] = '\0';
	list_for(node, &daemon->jobs)
		if (len < size)
			len += (size_t)snprintf(dst + len, size - len, "%s%s", len ? ", " : "",
						list_entry(node, struct job, link)->name);
	return *dst ? dst : "none";
}

static int choose(struct daemon *daemon, const char *name, struct job **out, struct err *err)
{
	char names[256];
	*out = *name ? job_find(daemon, name) : NULL;
	if (*name && !*out)
		return err_set(err, -ENOENT, "there is no job '%s' here; jobs: %s", name,
			       job_names(daemon, names, sizeof(names)));
	if (*name)
		return 0;
	if (list_empty(&daemon->jobs))
		return err_set(err, -ENOENT, "this daemon has no job");
	if (daemon->jobs.next->next != &daemon->jobs)
		return err_set(err, -EINVAL, "name the job; there are several: %s",
			       job_names(daemon, names, sizeof(names)));
	*out = list_entry(daemon->jobs.next, struct job, link);
	return 0;
}

/* What is newest in memory is the same on all nodes, or is about to be; it is written on the word of the one that decides. */
static int flush_elsewhere(struct job *job, const struct wire_command *command, struct wire_answer *answer,
			   struct err *err)
{
	const struct snapshot *newest = saves_in_memory(&job->saves, UINT64_MAX);
	if (!newest)
		return err_set(err, -ENOENT, "job %s has no snapshot that is complete in memory", job->name);
	answer->id = newest->id;
	int rc = seat_can_ask(job, err);
	if (!rc)
		seat_ask(job, command);
	return rc;
}

static int flush(struct job *job, const struct wire_command *command, struct wire_answer *answer, struct err *err)
{
	bool here = saves_decide(&job->saves) || job->daemon->root < 0;
	int rc = here ? queue_flush(&job->saves, &answer->id, err) : flush_elsewhere(job, command, answer, err);
	if (!rc)
		snprintf(answer->text, sizeof(answer->text), "job %s: step %lu of epoch %u goes to storage", job->name,
			 (unsigned long)answer->id.step, answer->id.epoch);
	return rc;
}

static int drain(struct daemon *daemon, const struct wire_command *command, struct wire_answer *answer, struct err *err)
{
	const char *name;
	bool on = command->kind == COMMAND_DRAIN;
	int rc = muster_drain(daemon, command->job, command->node, on, &name, err);
	if (rc)
		return rc;
	snprintf(answer->job, sizeof(answer->job), "%s", name);
	snprintf(answer->text, sizeof(answer->text),
		 on ? "job %s: node %s is let go at the next save" : "job %s: node %s may have ranks again", name,
		 command->node);
	log_info("ordered: %s", answer->text);
	return 0;
}

/* On all nodes or on none. */
static int halt(struct job *job, const struct wire_command *command, struct wire_answer *answer, struct err *err)
{
	int rc = seat_can_ask(job, err);
	if (!rc)
		rc = halt_ask(job, command, answer, err);
	if (!rc)
		seat_ask(job, command);
	return rc;
}

void order_obey(struct job *job, const struct wire_command *command)
{
	struct wire_answer answer = {0};
	struct err err = {{0}};
	bool flushes = command->kind == COMMAND_FLUSH;
	if (flushes && !saves_decide(&job->saves))
		return;
	int rc = flushes ? queue_flush(&job->saves, &answer.id, &err) : halt_ask(job, command, &answer, &err);
	if (rc)
		log_warn("ordered on another node, and not done here: %s", err.text);
	else
		log_info("ordered on another node: job %s: %s", job->name, flushes ? "flush" : answer.text);
}

int order_take(struct daemon *daemon, const struct wire_command *command, struct wire_answer *answer, struct err *err)
{
	struct job *job;
	*answer = (struct wire_answer){0};
	if (command->kind == COMMAND_DRAIN || command->kind == COMMAND_UNDRAIN)
		return drain(daemon, command, answer, err);
	int rc = choose(daemon, command->job, &job, err);
	if (rc)
		return rc;
	memcpy(answer->job, job->name, sizeof(answer->job));
	rc = command->kind == COMMAND_FLUSH ? flush(job, command, answer, err) : halt(job, command, answer, err);
	if (!rc)
		log_info("ordered: %s", answer->text);
	return rc;
}
