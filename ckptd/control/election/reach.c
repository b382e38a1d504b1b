#include "control/election/reach.h"

#include "base/cleanup.h"
#include "cluster/room.h"
#include "control/control.h"
#include "control/election/hand_over.h"
#include "format/message/peer_reach.h"
#include "job/room.h"
#include "replication/room.h"

#include <stdlib.h>

struct reach_question {
	struct reach_question *next; /* the next older one */
	uint32_t from;
	uint64_t theirs, ours; /* its number, as who asks has given it; and in what we ask */
	uint32_t n;
	uint32_t nodes[PEER_REACH_NODES]; /* that have not answered */
};

int reach_send(const struct control *control, uint32_t node, const struct peer_reach *m)
{
	AUTO_WBUF struct wbuf body = {0};
	int rc = peer_reach_encode(m, &body);
	return rc ? rc : net_send(control->peers->net, node, (uint16_t)m->type, &body);
}

static void say(const struct control *control, uint32_t node, enum peer_type type, uint64_t number, bool all)
{
	struct peer_reach m = {.type = type, .number = number, .all = all};
	(void)reach_send(control, node, &m); /* else it is as if it had not come */
}

static void forget(struct reach_question **at)
{
	struct reach_question *q = *at;
	*at = q->next;
	free(q);
}

static void answer(struct control *control, struct reach_question **at, bool all)
{
	say(control, (*at)->from, PEER_REACH_ANSWER, (*at)->theirs, all);
	forget(at);
}

/* False: so many are open already. */
static bool make_room(struct control *control, uint32_t from)
{
	struct reach_question **oldest = NULL;
	unsigned all = 0, each = 0;
	for (struct reach_question **at = &control->questions; *at; at = &(*at)->next) {
		all++;
		if ((*at)->from != from)
			continue;
		each++;
		oldest = at;
	}
	if (each < REACH_OPEN_EACH)
		return all < REACH_OPEN;
	forget(oldest);
	return true;
}

static bool has_part(const struct control *control, const char *name)
{
	const struct job *job = job_find(control->jobs, name);
	return job && job->spread;
}

/* A session without a connection is called. */
static bool ask_all(const struct control *control, struct reach_question *q, const struct peer_reach *asked)
{
	const struct peer_reach ping = {.type = PEER_REACH_PING, .number = q->ours};
	for (uint32_t i = 0; i < asked->n; i++) {
		uint32_t node = asked->nodes[i];
		if (node == control->peers->self || node == q->from)
			continue;
		if (node >= control->peers->roster->n || reach_send(control, node, &ping))
			return false;
		q->nodes[q->n++] = node;
	}
	return true;
}

static void hear_ask(struct control *control, uint32_t node, const struct peer_reach *asked)
{
	bool may = has_part(control, asked->job) && make_room(control, node);
	struct reach_question *q = may ? calloc(1, sizeof(*q)) : NULL;
	if (!q) {
		say(control, node, PEER_REACH_ANSWER, asked->number, false);
		return;
	}
	*q = (struct reach_question){
		.next = control->questions, .from = node, .theirs = asked->number, .ours = ++control->reach_numbers};
	control->questions = q;
	bool is_asked = ask_all(control, q, asked);
	if (!is_asked || !q->n)
		answer(control, &control->questions, is_asked);
}

/* True: it was one of those. */
static bool take_off(struct reach_question *q, uint32_t node)
{
	for (uint32_t i = 0; i < q->n; i++)
		if (q->nodes[i] == node) {
			q->nodes[i] = q->nodes[--q->n];
			return true;
		}
	return false;
}

static void hear_pong(struct control *control, uint32_t node, uint64_t number)
{
	for (struct reach_question **at = &control->questions; *at; at = &(*at)->next) {
		if ((*at)->ours != number)
			continue;
		if (take_off(*at, node) && !(*at)->n)
			answer(control, at, true);
		return;
	}
}

void reach_node_down(struct control *control, uint32_t node)
{
	for (struct reach_question **at = &control->questions; *at;) {
		if ((*at)->from == node)
			forget(at);
		else if (take_off(*at, node))
			answer(control, at, false);
		else
			at = &(*at)->next;
	}
}

int reach_message(struct control *control, uint32_t node, uint16_t type, const void *body, size_t len, struct err *err)
{
	struct peer_reach m;
	int rc = peer_reach_decode(type, body, len, &m, err);
	if (rc)
		return rc;
	if (type == PEER_REACH_ASK)
		hear_ask(control, node, &m);
	else if (type == PEER_REACH_PING)
		say(control, node, PEER_REACH_PONG, m.number, false);
	else if (type == PEER_REACH_PONG)
		hear_pong(control, node, m.number);
	else
		hand_over_answer(control, node, m.number, m.all);
	return 0;
}

void reach_free(struct control *control)
{
	while (control->questions)
		forget(&control->questions);
}
