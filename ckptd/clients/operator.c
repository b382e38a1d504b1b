#include "clients/operator.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "checkpoint/room.h"
#include "clients/operator_forward.h"
#include "clients/operator_wait.h"
#include "clients/operators.h"
#include "control/room.h"
#include "faults/room.h"
#include "job/room.h"
#include "observe/room.h"
#include "participant/room.h"
#include "save/room.h"

#include <stdio.h>
#include <string.h>

static const char *job_names(const struct operators *operators, char *dst, size_t size)
{
	size_t len = 0;
	dst[0] = '\0';
	list_for(node, &operators->jobs->list)
		if (len < size)
			len += (size_t)snprintf(dst + len, size - len, "%s%s", len ? ", " : "",
						list_entry(node, struct job, link)->name);
	return *dst ? dst : "none";
}

static int choose(struct operators *operators, const char *name, struct job **out, struct err *err)
{
	char names[256];
	*out = *name ? job_find(operators->jobs, name) : NULL;
	if (*name && !*out)
		return err_set(err, -ENOENT, "there is no job '%s' here; jobs: %s", name,
			       job_names(operators, names, sizeof(names)));
	if (*name)
		return 0;
	if (list_empty(&operators->jobs->list))
		return err_set(err, -ENOENT, "this daemon has no job");
	if (operators->jobs->list.next->next != &operators->jobs->list)
		return err_set(err, -EINVAL, "name the job; there are several: %s",
			       job_names(operators, names, sizeof(names)));
	*out = list_entry(operators->jobs->list.next, struct job, link);
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
	int rc = participant_can_forward(job, err);
	if (!rc)
		participant_forward(job, command);
	return rc;
}

static int flush(struct job *job, const struct wire_command *command, struct wire_answer *answer, struct err *err)
{
	bool here = saves_decide(&job->saves) || job->storage->root < 0;
	int rc = here ? queue_flush(&job->saves, &answer->id, err) : flush_elsewhere(job, command, answer, err);
	if (!rc)
		snprintf(answer->text, sizeof(answer->text), "job %s: step %lu of epoch %u goes to storage", job->name,
			 (unsigned long)answer->id.step, answer->id.epoch);
	return rc;
}

static bool is_drain_asked(const struct wire_command *command)
{
	return command->kind == COMMAND_DRAINED;
}

int operator_outcome(struct operators *operators, const struct wire_command *command, struct wire_answer *answer,
		     struct err *err)
{
	struct membership_drained is;
	if (wire_command_is_halt(command)) {
		memcpy(answer->job, command->job, sizeof(answer->job));
		return host_halt_waits(operators->control, command->job) ? -EINPROGRESS : 0;
	}
	bool on = command->kind == COMMAND_DRAIN, asks = is_drain_asked(command);
	int rc = membership_drained(operators->control, command->job, command->node, &is, err);
	if (rc && (asks || rc != -EBUSY))
		return rc;
	if (is.waits && !asks)
		return -EINPROGRESS;
	if (asks && is.ranks && !is.asked)
		return err_set(err, -ECANCELED, "node %s is not to be let go by job '%s' any more: that was undone",
			       command->node, is.job);
	if (!asks && !on && is.departs)
		return membership_departs_all_the_same(is.job, command->node, err);
	answer->left = is.ranks;
	snprintf(answer->job, sizeof(answer->job), "%s", is.job);
	if (asks)
		snprintf(answer->text, sizeof(answer->text), "%s", is.stuck);
	else
		snprintf(answer->text, sizeof(answer->text),
			 on ? "job %s: node %s is let go at the next save" : "job %s: node %s may have ranks again",
			 is.job, command->node);
	if (!asks)
		log_info("ordered: %s", answer->text);
	return 0;
}

/* Where the job is planned. -EINPROGRESS: it will be on record. */
static int drain(struct operators *operators, const struct wire_command *command, struct wire_answer *answer,
		 struct err *err)
{
	bool on = command->kind == COMMAND_DRAIN;
	int rc = is_drain_asked(command) ? 0
					 : membership_drain(operators->control, command->job, command->node, on, err);
	return rc ? rc : operator_outcome(operators, command, answer, err);
}

static bool is_planned_here(const struct operators *operators, const char *job)
{
	return host_here(operators->control, job) || membership_plan(operators->control, job);
}

/* Here, or on the node that plans it. Which job is meant, where none is named, is known by the jobs here. */
static int take_drain(struct operators *operators, struct client *client, uint32_t seq,
		      const struct wire_command *command, struct wire_answer *answer, struct err *err)
{
	struct job *job;
	struct wire_command named = *command;
	bool here = is_planned_here(operators, command->job);
	int rc = here || *command->job ? 0 : choose(operators, "", &job, err);
	if (rc)
		return rc;
	if (!here && !*command->job)
		memcpy(named.job, job->name, sizeof(named.job));
	if (here || is_planned_here(operators, named.job)) {
		rc = drain(operators, &named, answer, err);
		if (rc != -EINPROGRESS)
			return rc;
		rc = wait_here(operators, client, seq, &named, "", err);
		return rc ? rc : OPERATOR_LATER;
	}
	rc = forward_to_coordinator(operators, client, seq, &named, "", err);
	return rc ? rc : OPERATOR_LATER;
}

void operator_requested(struct operators *operators, uint32_t node, const struct peer_report *r)
{
	struct err err = {{0}};
	struct wire_answer answer = {0};
	const struct wire_command *command = &r->request.command;
	int rc = wire_command_is_halt(command) ? host_halt(operators->control, r->job, command, &err)
					       : drain(operators, command, &answer, &err);
	if (rc == -EINPROGRESS) {
		rc = wait_elsewhere(operators, node, r->request.token, command, &err);
		if (!rc)
			return;
	}
	struct peer_order order = {.type = PEER_ANSWER,
				   .answer = {.token = r->request.token, .rc = rc, .left = answer.left}};
	memcpy(order.job, r->job, sizeof(order.job));
	snprintf(order.answer.text, sizeof(order.answer.text), "%s", rc ? err.text : answer.text);
	host_order(operators->control, true, node, &order);
}

/* The coordinator puts it on record, and tells all nodes. */
static int halt_all(struct operators *operators, struct client *client, uint32_t seq,
		    const struct wire_command *command, const char *text, struct err *err)
{
	if (!host_here(operators->control, command->job)) {
		int rc = forward_to_coordinator(operators, client, seq, command, text, err);
		return rc ? rc : OPERATOR_LATER;
	}
	int rc = host_halt(operators->control, command->job, command, err);
	if (rc != -EINPROGRESS)
		return rc;
	rc = wait_here(operators, client, seq, command, text, err);
	return rc ? rc : OPERATOR_LATER;
}

/* On all nodes or on none. */
static int halt(struct operators *operators, struct client *client, uint32_t seq, struct job *job,
		const struct wire_command *command, struct wire_answer *answer, struct err *err)
{
	struct wire_command named = *command;
	memcpy(named.job, job->name, sizeof(named.job));
	int rc = participant_can_forward(job, err);
	if (rc && command->kind == COMMAND_HALT) {
		struct err why = *err;
		return err_set(err, rc, "%s, or send SIGTERM to each ckpt run of the job: its ranks end after --grace",
			       why.text);
	}
	if (!rc)
		rc = halt_request(job, command, answer, err);
	if (!rc && job->spread)
		return halt_all(operators, client, seq, &named, answer->text, err);
	if (!rc)
		participant_forward(job, command);
	return rc;
}

/* It is the coordinator's to do. */
static int roll_back(struct job *job, const struct wire_command *command, struct wire_answer *answer, struct err *err)
{
	int rc = participant_can_forward(job, err);
	if (rc)
		return rc;
	if (command->back.to.epoch > job->epoch)
		return err_set(err, -EINVAL, "job %s is in epoch %u: it cannot go back to step %lu of epoch %u",
			       job->name, job->epoch, (unsigned long)command->back.to.step, command->back.to.epoch);
	if (!job->epoch || job->entered != job->epoch)
		return err_set(err, -EAGAIN,
			       "job %s: its ranks are just entering an epoch: ask again when they are in it",
			       job->name);
	answer->id = command->back.to;
	answer->number = job->epoch;
	participant_roll_back(job, &command->back);
	snprintf(answer->text, sizeof(answer->text), "job %s goes back to step %lu of epoch %u", job->name,
		 (unsigned long)command->back.to.step, command->back.to.epoch);
	return 0;
}

void operator_obey(struct job *job, const struct wire_command *command)
{
	struct wire_answer answer = {0};
	struct err err = {{0}};
	bool flushes = command->kind == COMMAND_FLUSH;
	if (wire_command_is_drain(command)) {
		resize_drain(job, command->kind == COMMAND_DRAIN);
		return;
	}
	if (!flushes || !saves_decide(&job->saves))
		return;
	int rc = queue_flush(&job->saves, &answer.id, &err);
	if (rc)
		log_warn("ordered on another node, and not done here: %s", err.text);
	else
		log_info("ordered on another node: job %s: flush", job->name);
}

/* Of a daemon whose node ends: nothing that it does may come after this. */
static void send_last(struct operators *operators, struct client *client, uint32_t seq,
		      const struct wire_answer *answer)
{
	AUTO_WBUF struct wbuf body = {0};
	if (wire_answer_encode(answer, &body))
		body.failed = true;
	client_send(client, WIRE_COMMAND, seq, &body, NULL, 0);
	faults_power_off(operators->observe->faults);
}

static int cause(struct operators *operators, struct job *job, struct client *client, uint32_t seq,
		 const struct wire_command *command, struct wire_answer *answer, struct err *err)
{
	int rc = faults_cause(operators->observe->faults, job, command, answer, err);
	if (!rc && fault_ends_node(fault_of((enum fault_kind)command->fault.kind))) {
		send_last(operators, client, seq, answer);
		return OPERATOR_LATER;
	}
	return rc;
}

int operator_take(struct operators *operators, struct client *client, uint32_t seq, const struct wire_command *command,
		  struct wire_answer *answer, struct err *err)
{
	struct job *job;
	*answer = (struct wire_answer){0};
	if (command->kind == COMMAND_REMOVE || command->kind == COMMAND_CLEAR) {
		int rc = forward_to_record(operators, client, seq, command, err);
		return rc ? rc : OPERATOR_LATER;
	}
	if (wire_command_is_drain(command))
		return take_drain(operators, client, seq, command, answer, err);
	if (command->kind == COMMAND_FAULTED)
		return faults_ask(operators->observe->faults, command, answer, err);
	int rc = choose(operators, command->job, &job, err);
	if (rc)
		return rc;
	if (command->kind == COMMAND_FAULT)
		return cause(operators, job, client, seq, command, answer, err);
	memcpy(answer->job, job->name, sizeof(answer->job));
	if (command->kind == COMMAND_ROLLBACK)
		rc = roll_back(job, command, answer, err);
	else
		rc = command->kind == COMMAND_FLUSH ? flush(job, command, answer, err)
						    : halt(operators, client, seq, job, command, answer, err);
	if (!rc)
		log_info("ordered: %s", answer->text);
	return rc;
}
