#include "clients/operator_forward.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "clients/operator_wait.h"
#include "clients/operators.h"
#include "cluster/room.h"
#include "control/room.h"
#include "participant/room.h"
#include "replication/room.h"
#include "runtime/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whoever asks waits for 5 s (cli/frame/order.c). */
#define ANSWER_NS (4 * CLOCK_NS_PER_S)
enum { FORWARDS_MAX = 64 };

struct forward {
	struct forward *next;
	uint64_t token, deadline;
	uint32_t node; /* that is asked; NO_NODE: the registry, or the store */
	struct client *client;
	uint32_t seq;
	char text[WIRE_TEXT_MAX]; /* of the answer, where that has none */
};

static unsigned count(const struct operators *operators)
{
	unsigned n = 0;
	for (const struct forward *a = operators->forwards; a; a = a->next)
		n++;
	return n;
}

static struct forward *add(struct operators *operators, uint32_t node, struct client *client, uint32_t seq,
			   struct err *err)
{
	struct forward *a = count(operators) < FORWARDS_MAX ? calloc(1, sizeof(*a)) : NULL;
	if (!a) {
		err_set(err, -EBUSY, "%d questions wait for an answer already", FORWARDS_MAX);
		return NULL;
	}
	*a = (struct forward){.next = operators->forwards,
			      .token = ++operators->forward_tokens,
			      .node = node,
			      .deadline = clock_deadline(ANSWER_NS),
			      .client = client,
			      .seq = seq};
	operators->forwards = a;
	return a;
}

int forward_to_coordinator(struct operators *operators, struct client *client, uint32_t seq,
			   const struct wire_command *command, const char *text, struct err *err)
{
	char who[WIRE_TEXT_MAX];
	if (!coordinator_in_reach(operators->control, command->job))
		return err_set(err, -ENOTCONN, "job '%s': %s: ask again later", command->job,
			       coordinator_text(operators->control, command->job, who, sizeof(who)));
	struct forward *a = add(operators, coordinator_of(operators->control, command->job), client, seq, err);
	if (!a)
		return -EBUSY;
	snprintf(a->text, sizeof(a->text), "%s", text);
	struct peer_report r = {.type = PEER_REQUEST, .request = {.token = a->token, .command = *command}};
	memcpy(r.job, command->job, sizeof(r.job));
	participant_send(operators->peers, operators->control, a->node, &r);
	return 0;
}

int forward_here(struct operators *operators, struct client *client, uint32_t seq, const char *text, uint64_t *token,
		 struct err *err)
{
	struct forward *a = add(operators, NO_NODE, client, seq, err);
	if (!a)
		return -EBUSY;
	snprintf(a->text, sizeof(a->text), "%s", text);
	*token = a->token;
	return 0;
}

/* The next one in its place. */
static void drop(struct forward **at)
{
	struct forward *a = *at;
	*at = a->next;
	free(a);
}

static void answer(const struct forward *a, const struct peer_order *order)
{
	AUTO_WBUF struct wbuf body = {0};
	const struct peer_answer *m = &order->answer;
	struct wire_answer reply = {.left = m->left};
	if (m->rc) {
		client_error(a->client, a->seq, m->rc, "%s", m->text);
		return;
	}
	snprintf(reply.job, sizeof(reply.job), "%s", order->job);
	snprintf(reply.text, sizeof(reply.text), "%s", *m->text ? m->text : a->text);
	if (wire_answer_encode(&reply, &body))
		body.failed = true;
	client_send(a->client, WIRE_COMMAND, a->seq, &body, NULL, 0);
}

void forward_answered(struct operators *operators, const struct peer_order *order)
{
	for (struct forward **at = &operators->forwards; *at; at = &(*at)->next) {
		if ((*at)->token != order->answer.token)
			continue;
		struct forward a = **at;
		drop(at); /* a client that is answered may go, and forget what it asked */
		answer(&a, order);
		return;
	}
}

struct asked {
	struct operators *operators;
	uint64_t token;
};

/* Whoever asked may have gone. */
static void done(void *arg, int rc, const char *why)
{
	struct asked *r = arg;
	struct peer_order order = {.type = PEER_ANSWER, .answer = {.token = r->token, .rc = rc}};
	snprintf(order.answer.text, sizeof(order.answer.text), "%s", why);
	forward_answered(r->operators, &order);
	free(r);
}

int forward_to_record(struct operators *operators, struct client *client, uint32_t seq,
		      const struct wire_command *command, struct err *err)
{
	struct asked *r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(err, -ENOMEM, "no memory");
	struct forward *a = add(operators, NO_NODE, client, seq, err);
	if (a)
		*r = (struct asked){.operators = operators, .token = a->token};
	int rc = !a ? -EBUSY
		    : (command->kind == COMMAND_REMOVE ? members_remove : set_aside_clear)(operators->control,
											   command->node, done, r, err);
	if (!rc)
		return 0;
	if (a)
		drop(&operators->forwards); /* it is the first */
	free(r);
	return rc;
}

void forward_forget(struct operators *operators, const struct client *client)
{
	for (struct forward **at = &operators->forwards; *at;) {
		if ((*at)->client == client)
			drop(at);
		else
			at = &(*at)->next;
	}
}

/* Those of one node, or of all (NO_NODE), whose deadline is not later. */
static void fail(struct operators *operators, uint32_t node, uint64_t until, int rc, const char *what)
{
	for (struct forward **at = &operators->forwards; *at;) {
		struct forward a = **at;
		if (a.deadline > until || (node != NO_NODE && a.node != node)) {
			at = &(*at)->next;
			continue;
		}
		drop(at);
		if (a.node == NO_NODE)
			client_error(a.client, a.seq, rc,
				     "the registry or the store %s: look with ckpt nodes what has become of it", what);
		else
			client_error(a.client, a.seq, rc, "node %s, which coordinates the job, %s",
				     operators->peers->roster->nodes[a.node].name, what);
		at = &operators->forwards;
	}
}

void forward_down(struct operators *operators, uint32_t node)
{
	fail(operators, node, UINT64_MAX, -ENOTCONN, "was lost before it answered");
}

void forward_tick(struct operators *operators)
{
	waits_tick(operators);
	if (operators->forwards)
		fail(operators, NO_NODE, clock_now(), -ETIMEDOUT, "does not answer");
}
