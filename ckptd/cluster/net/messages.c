/* Messages, on the loop's side: what is sent waits for the thread (post.c), what has come is told. */
#include "cluster/net/engine.h"

#include "base/cleanup.h"

#include <stdlib.h>

/* ---- out -------------------------------------------------------------------------------------------------------- */

static int take(struct net *net, unsigned node, const struct letter *made)
{
	struct peer *p = &net->peers[node];
	struct letter *letter = malloc(sizeof(*letter));
	if (!letter)
		return -ENOMEM;
	*letter = *made;
	letter->session = p->seen;
	LOCK_SCOPE(&net->lock);
	bool dropped = p->drop == p->seen,
	     full = p->nletters == NET_QUEUE_MAX || p->letter_bytes + letter->own > NET_QUEUE_BYTES;
	if (dropped || full) {
		free(letter);
		return dropped ? -ENOTCONN : -ENOBUFS;
	}
	net_body_hold(letter->body);
	p->nletters++;
	p->letter_bytes += letter->own;
	net->counts.messages_out++;
	list_push(&p->letters, &letter->link);
	net_wake(p);
	return 0;
}

int net_send(struct net *net, unsigned node, uint16_t type, const struct wbuf *text)
{
	static const struct wbuf none = {0};
	size_t len = text ? text->len : 0;
	if (!net->peers[node].seen)
		return -ENOTCONN;
	if (len > NET_MESSAGE_MAX)
		return -EMSGSIZE;
	struct net_body *body = net_body_new(text ? text : &none);
	if (!body)
		return -ENOMEM;
	int rc = take(net, node, &(struct letter){.type = type, .own = len, .body = body});
	net_body_drop(body);
	return rc;
}

int net_send_body(struct net *net, unsigned node, uint16_t type, struct net_body *body)
{
	if (!net->peers[node].seen)
		return -ENOTCONN;
	if (body->len > NET_BODY_MAX)
		return -EMSGSIZE;
	return take(net, node, &(struct letter){.type = type, .body = body});
}

/* ---- in --------------------------------------------------------------------------------------------------------- */

static void consumed(struct peer *p, const struct message *m)
{
	LOCK_SCOPE(&p->net->lock);
	if (m->session != p->session_now)
		return;
	p->consumed += m->frames;
	net_wake(p);
}

/* What goes on waits for the rest of it. */
static void deliver(struct peer *p, const struct message *m)
{
	struct wbuf whole = {0};
	uint16_t type = m->type & (uint16_t)~MESSAGE_MORE;
	if (p->whole.len + m->len > NET_BODY_MAX) {
		net_drop(p->net, p->node, -EBADMSG);
		return;
	}
	if (m->type == type && !p->whole.len) {
		p->net->events.message(p->net->events.arg, p->node, type, m->body, m->len);
		return;
	}
	wbuf_put(&p->whole, m->body, m->len);
	if (p->whole.failed)
		net_drop(p->net, p->node, -ENOMEM);
	if (m->type != type || p->whole.failed)
		return;
	whole = p->whole;
	p->whole = (struct wbuf){0}; /* the session may end as it is told */
	p->net->events.message(p->net->events.arg, p->node, type, whole.data, whole.len);
	wbuf_free(&whole);
}

/* Those of the session that the loop knows of; what is left of earlier ones is dropped. */
int messages_run(struct peer *p)
{
	int n = 0;
	for (;; n++) {
		pthread_mutex_lock(&p->net->lock);
		struct message *m =
			list_empty(&p->messages) ? NULL : list_entry(p->messages.next, struct message, link);
		bool later = m && m->session > p->seen;
		if (m && !later)
			list_remove(&m->link);
		pthread_mutex_unlock(&p->net->lock);
		if (!m || later)
			return n;
		if (m->session == p->seen)
			deliver(p, m);
		consumed(p, m);
		free(m->body);
		free(m);
	}
}
