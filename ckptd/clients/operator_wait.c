#include "clients/operator_wait.h"

#include "base/clock.h"
#include "clients/operator_forward.h"
#include "clients/operators.h"
#include "cluster/room.h"
#include "control/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A node that asks for an operator waits for 4 s (clients/operator_forward.c). */
#define WAIT_NS (3 * CLOCK_NS_PER_S)
enum { WAITS_MAX = 64 };

struct operator_wait {
	struct operator_wait *next;
	uint32_t node; /* NO_NODE: a client here asks, who is answered by that token (forward_here) */
	uint64_t token, deadline;
	struct wire_command command;
};

int wait_elsewhere(struct operators *operators, uint32_t node, uint64_t token, const struct wire_command *command,
		   struct err *err)
{
	unsigned n = 0;
	for (const struct operator_wait *w = operators->waits; w; w = w->next)
		n++;
	struct operator_wait *w = n < WAITS_MAX ? calloc(1, sizeof(*w)) : NULL;
	if (!w)
		return err_set(err, -EBUSY, "%u orders wait for the record already", n);
	*w = (struct operator_wait){.next = operators->waits,
				    .node = node,
				    .token = token,
				    .deadline = clock_deadline(WAIT_NS),
				    .command = *command};
	operators->waits = w;
	return 0;
}

int wait_here(struct operators *operators, struct client *client, uint32_t seq, const struct wire_command *command,
	      const char *text, struct err *err)
{
	int rc = wait_elsewhere(operators, NO_NODE, 0, command, err);
	struct operator_wait *w = operators->waits; /* it is the first */
	if (rc)
		return rc;
	rc = forward_here(operators, client, seq, text, &w->token, err);
	if (rc) {
		operators->waits = w->next;
		free(w);
	}
	return rc;
}

static void answer(struct operators *operators, const struct operator_wait *w, int rc, const struct wire_answer *is,
		   const char *why)
{
	struct peer_order order = {.type = PEER_ANSWER, .answer = {.token = w->token, .rc = rc, .left = is->left}};
	memcpy(order.job, rc ? w->command.job : is->job, sizeof(order.job));
	snprintf(order.answer.text, sizeof(order.answer.text), "%s", rc ? why : is->text);
	if (w->node == NO_NODE)
		forward_answered(operators, &order);
	else
		host_order(operators->control, true, w->node, &order);
}

/* False: it is waited for. */
static bool look(struct operators *operators, const struct operator_wait *w)
{
	struct wire_answer is = {0};
	struct err err = {{0}};
	int rc = operator_outcome(operators, &w->command, &is, &err);
	if (rc == -EINPROGRESS && clock_now() < w->deadline)
		return false;
	if (rc == -EINPROGRESS)
		rc = err_set(
			&err, -ETIMEDOUT,
			"job '%s': that is not on record yet, and nobody is told before it is: the registry or the "
			"store does not answer. It is done as soon as it does",
			w->command.job);
	answer(operators, w, rc, &is, err.text);
	return true;
}

void waits_tick(struct operators *operators)
{
	for (struct operator_wait **at = &operators->waits; *at;) {
		struct operator_wait *w = *at;
		if (!look(operators, w)) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		free(w);
	}
}

void waits_free(struct operators *operators)
{
	while (operators->waits) {
		struct operator_wait *w = operators->waits;
		operators->waits = w->next;
		free(w);
	}
}
