#include "faults/fault_request.h"

#include "base/clock.h"
#include "frame/contact.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#define ASK_NS (5 * CLOCK_NS_PER_S)

static int ask(const struct fault_request *q, const struct wire_command *command, struct fault_result *result,
	       bool *refused, struct err *err)
{
	struct wire_answer answer = {0};
	uint64_t deadline = min_u64(q->deadline, clock_deadline(ASK_NS));
	int rc = contact_command(q->socket, q->user, command, deadline, &answer, refused, err);
	if (rc)
		return rc;
	result->number = answer.number;
	result->outcome = answer.left < FAULT_OUTCOME_END ? (enum fault_outcome)answer.left : FAULT_NOT_FIRED;
	memcpy(result->job, answer.job, sizeof(result->job));
	snprintf(result->text, sizeof(result->text), "%s", answer.text);
	return 0;
}

static int order_drain(const struct fault_request *q, const char *job, enum wire_command_kind kind,
		       char text[WIRE_REASON_MAX], struct err *err)
{
	struct wire_command command = {.kind = kind};
	struct wire_answer answer = {0};
	bool refused;
	snprintf(command.job, sizeof(command.job), "%s", job);
	snprintf(command.node, sizeof(command.node), "%s", q->node);
	int rc = contact_command(q->socket, q->user, &command, min_u64(q->deadline, clock_deadline(ASK_NS)), &answer,
				 &refused, err);
	if (!rc)
		snprintf(text, WIRE_REASON_MAX, "%.200s", answer.text);
	return rc;
}

int fault_undrain(const struct fault_request *q, const char *job, char text[WIRE_REASON_MAX], struct err *err)
{
	return order_drain(q, job, COMMAND_UNDRAIN, text, err);
}

/* A signal ends the time early. */
static int drain(const struct fault_request *q, const char *job, char text[WIRE_REASON_MAX], struct err *err)
{
	int rc = order_drain(q, job, COMMAND_DRAIN, text, err);
	if (rc || !q->for_ms)
		return rc;
	poll(NULL, 0, (int)min_u64(q->for_ms, INT32_MAX));
	return fault_undrain(q, job, text, err);
}

static int act(const struct fault_request *q, const struct fault_result *result, char text[WIRE_REASON_MAX],
	       struct err *err)
{
	if (q->entry->target == FAULT_AT_DAEMON)
		return fault_signal_daemon(q, text, err);
	if (q->entry->target == FAULT_AT_NODE)
		return drain(q, result->job, text, err);
	if (q->entry->target == FAULT_AT_NETWORK)
		return fault_break_link(q, text, err);
	return fault_flip_stored(q, result->job, text, err);
}

/* The daemon is told, so that its records have it; one that has ended cannot be. */
static int report(const struct fault_request *q, struct fault_result *result, enum fault_outcome outcome,
		  const char *text, struct err *err)
{
	struct wire_command command = {.kind = COMMAND_FAULTED,
				       .fault = {.number = result->number, .outcome = outcome}};
	bool refused;
	snprintf(command.fault.text, sizeof(command.fault.text), "%s", text);
	if (!fault_ends_daemon(q->entry))
		return ask(q, &command, result, &refused, err);
	result->outcome = outcome;
	snprintf(result->text, sizeof(result->text), "%s", text);
	return 0;
}

/* What it says beside its time. */
static uint32_t parameter(const struct fault_request *q)
{
	switch (q->entry->kind) {
	case FAULT_POWER_CUT:
		return (uint32_t)q->seed;
	case FAULT_CLOCK_JUMP:
		return (uint32_t)q->by_s;
	default:
		return q->rank;
	}
}

int fault_begin(const struct fault_request *q, struct fault_result *result, bool *refused, struct err *err)
{
	struct wire_command command = {.kind = COMMAND_FAULT,
				       .fault = {.kind = (uint32_t)q->entry->kind,
						 .rank = parameter(q),
						 .for_ms = q->for_ms,
						 .number = (uint32_t)q->seed}};
	char text[WIRE_REASON_MAX];
	snprintf(command.job, sizeof(command.job), "%s", q->job);
	int rc = ask(q, &command, result, refused, err);
	if (rc || q->entry->actor != FAULT_BY_COMMAND)
		return rc;
	rc = act(q, result, text, err);
	if (!rc)
		return report(q, result, FAULT_FIRED, text, err);
	struct err ignored = {""};
	int told = report(q, result, FAULT_NOT_FIRED, err->text, &ignored);
	return rc == -EAGAIN ? told : rc;
}

int fault_look(const struct fault_request *q, struct fault_result *result, bool *refused, struct err *err)
{
	struct wire_command command = {.kind = COMMAND_FAULTED, .fault = {.number = result->number}};
	return ask(q, &command, result, refused, err);
}
