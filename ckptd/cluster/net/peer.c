/* A session's life: calls until it is there, what it brings, its end. */
#include "cluster/net/engine.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

void peer_init(struct peer *p, struct net *net, unsigned node)
{
	struct list *const lists[] = {&p->work,     &p->ready,   &p->letters, &p->fresh, &p->ended,
				      &p->messages, &p->revokes, &p->asked,   &p->busy,  &p->smalls,
				      &p->ops,      &p->flying,  &p->parts};
	*p = (struct peer){.net = net, .node = node, .backoff_ms = BACKOFF_MIN_MS};
	for (unsigned i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		list_init(lists[i]);
	session_init(&p->session, &net->identity, net->roster->nodes[node].name, node);
	/* The lower index calls; the other one only where that does not help. */
	p->call_at = clock_deadline(node > net->self ? 0 : BACKOFF_MIN_MS * CLOCK_NS_PER_MS);
}

void peer_free(struct peer *p)
{
	for (struct list *node; (node = list_pop(&p->letters));)
		free(list_entry(node, struct letter, link));
	for (struct list *node; (node = list_pop(&p->messages));) {
		struct message *m = list_entry(node, struct message, link);
		free(m->body);
		free(m);
	}
	for (struct list *node; (node = list_pop(&p->parts));)
		free(list_entry(node, struct part, link));
	sodium_memzero(&p->session, sizeof(p->session));
}

static void say_session(struct peer *p, uint64_t session, int rc)
{
	LOCK_SCOPE(&p->net->lock);
	p->session_now = session;
	p->rc = rc;
	p->heard_last = p->heard;
	p->consumed = 0;
	p->deaf = false;
	if (session)
		p->net->counts.sessions++;
	net_tell(p);
}

/* Everything of the session that the sealing does not know of. */
static void clear(struct peer *p, int rc)
{
	uint64_t session = p->id;
	if (!session)
		return;
	log_debug("node %s: the session is over: %s", p->session.name, err_name(rc));
	copy_clear(p, rc == -ESHUTDOWN && p->net->stopping ? -ESHUTDOWN : -ECONNRESET);
	region_close_all(p, session);
	post_clear(p);
	inbox_clear(&p->inbox);
	p->id = 0;
	say_session(p, 0, rc);
}

/* Closes the connections, so that nothing that is still on the way arrives, and the next call finds a new way. */
static void cut_messages(struct peer *p)
{
	if (rail_remove(&p->net->messages, &p->frames, p->sending > 0))
		rail_insert(&p->net->messages, &p->where, &p->frames.peer);
}

void peer_end(struct peer *p, int rc, bool cut)
{
	clear(p, rc);
	session_end(&p->session);
	if (cut)
		cut_messages(p);
	p->called_at = 0;
	p->call_sent = false;
	p->call_at = clock_deadline(p->node > p->net->self ? 0 : BACKOFF_MIN_MS * CLOCK_NS_PER_MS);
}

static void begin(struct peer *p)
{
	if (p->id)
		clear(p, -ECONNRESET); /* it has begun anew */
	p->id = ++p->net->next_session;
	p->heard = p->said = clock_now();
	silence_begin(&p->silence, p->net->timeout, TICK_MS * CLOCK_NS_PER_MS, p->heard);
	p->called_at = 0;
	p->call_sent = false;
	p->backoff_ms = BACKOFF_MIN_MS;
	p->reachable =
		p->session.address.len && !rail_insert(&p->net->copies, p->session.address.bytes, &p->copies.peer);
	say_session(p, p->id, 0);
}

/* ---- what comes in ----------------------------------------------------------------------------------------------- */

static int give_message(struct peer *p)
{
	struct message *m = malloc(sizeof(*m));
	if (!m)
		return -ENOMEM;
	*m = (struct message){.session = p->id,
			      .type = p->inbox.type,
			      .frames = p->inbox.frames,
			      .len = p->inbox.len,
			      .body = steal_ptr(&p->inbox.body)};
	inbox_clear(&p->inbox);
	LOCK_SCOPE(&p->net->lock);
	p->net->counts.messages_in++;
	list_push(&p->messages, &m->link);
	net_tell(p);
	return 0;
}

static int take_data(struct peer *p, const struct session_taken *taken)
{
	pthread_mutex_lock(&p->net->lock);
	uint64_t consumed = p->consumed;
	pthread_mutex_unlock(&p->net->lock);
	if (++p->taken - consumed > WINDOW)
		return -EPROTO;
	int rc = inbox_take(&p->inbox, taken->body, taken->len);
	return rc > 0 ? give_message(p) : rc;
}

static int take_number(struct peer *p, enum session_kind kind, uint64_t n)
{
	if (kind == SESSION_REVOKE) {
		copy_revoke(p, n);
	} else if (kind == SESSION_REVOKED) {
		region_released(p, n);
	} else if (n < p->confirmed || n > p->sent) {
		return -EPROTO;
	} else {
		p->confirmed = n;
		net_busy(p);
	}
	return 0;
}

static void take_frame(struct peer *p, const struct session_taken *taken)
{
	struct rbuf r = rbuf_of(taken->body, taken->len);
	int rc = -EPROTO;
	p->heard = clock_now();
	silence_break(&p->silence, p->heard);
	if (taken->kind == SESSION_DATA) {
		rc = take_data(p, taken);
	} else if (taken->kind == SESSION_BYE) {
		rc = -ESHUTDOWN;
	} else {
		uint64_t n = rbuf_u64(&r);
		rc = rbuf_finish(&r) ? -EPROTO : take_number(p, taken->kind, n);
	}
	if (rc && p->id)
		peer_end(p, rc, true);
	pthread_mutex_lock(&p->net->lock);
	p->deaf = false;
	pthread_mutex_unlock(&p->net->lock);
}

static void refuse(struct net *net)
{
	LOCK_SCOPE(&net->lock);
	net->counts.refused++;
}

/* Once per stay: it goes on to call. */
static void say_roster(struct peer *p)
{
	if (p->session.other_roster && !p->told_roster)
		log_warn("node %s has another roster, and is not let in: it must be the same file on all nodes",
			 p->session.name);
	p->told_roster = p->session.other_roster;
}

static void say_protocol(struct peer *p)
{
	bool other = p->session.protocol && p->session.protocol != SESSION_PROTOCOL;
	if (other && !p->told_protocol)
		log_warn("node %s speaks protocol %u between daemons, this one %d, and is not let in: let ckptd be of "
			 "one "
			 "release on all nodes, and start the older one again",
			 p->session.name, p->session.protocol, SESSION_PROTOCOL);
	p->told_protocol = other;
}

void peer_frame(struct net *net, const void *frame, size_t len)
{
	uint32_t index;
	if (session_sender(frame, len, &index) || index >= net->roster->n || index == net->self) {
		refuse(net);
		return;
	}
	struct peer *p = &net->peers[index];
	struct session_taken taken;
	struct session_frame reply;
	switch (session_take(&p->session, frame, len, &taken, &reply)) {
	case SESSION_REFUSED:
		refuse(net);
		say_roster(p);
		say_protocol(p);
		break;
	case SESSION_IGNORED:
		break;
	case SESSION_ANSWERED:
		p->called_at = 0;
		p->call_at = clock_deadline(CALL_MS * CLOCK_NS_PER_MS);
		post_reply(p, &reply);
		break;
	case SESSION_OPENED:
		begin(p);
		if (reply.len)
			post_reply(p, &reply);
		break;
	case SESSION_TAKEN:
		take_frame(p, &taken);
		break;
	}
}

/* ---- the clock --------------------------------------------------------------------------------------------------- */

static void call(struct peer *p, uint64_t now)
{
	uint64_t patience = max_u64(p->net->timeout, CALL_MS * CLOCK_NS_PER_MS);
	if (!p->called_at) {
		p->called_at = p->retry_at = now;
		p->call_sent = false;
	}
	if (!p->call_sent && now >= p->retry_at) {
		p->call_sent = !post_call(p);
		p->retry_at = now + (now - p->called_at); /* each connection that is refused costs something */
	}
	if (now - p->called_at < patience)
		return;
	log_debug("node %s does not answer", p->session.name);
	/* What is on its way may have been swallowed by a connection to a process that is gone. */
	cut_messages(p);
	p->called_at = 0;
	p->call_at = now + p->backoff_ms * CLOCK_NS_PER_MS;
	p->backoff_ms = 2 * p->backoff_ms < BACKOFF_MAX_MS ? 2 * p->backoff_ms : BACKOFF_MAX_MS;
}

static void watch(struct peer *p, uint64_t now)
{
	if (silence_look(&p->silence, now))
		peer_end(p, -ETIMEDOUT, true);
	else if (p->stalled_at && !p->sending && now - p->stalled_at >= STALL_MS * CLOCK_NS_PER_MS)
		peer_end(p, -ECONNRESET, true);
	else if (now - p->said >= p->net->timeout / 4 && !p->stalled)
		post_small(p, SESSION_BEAT, p->told);
}

void peer_tick(struct peer *p, uint64_t now)
{
	if (p->id) {
		copy_tick(p, now);
		watch(p, now);
	} else if (now >= p->call_at) {
		call(p, now);
	}
	if (p->stalled)
		net_busy(p);
}

/* ---- what the loop has left -------------------------------------------------------------------------------------- */

static void take_copies(struct peer *p)
{
	LOCK_SCOPE(&p->net->lock);
	for (struct list *node; (node = list_pop(&p->fresh));)
		list_push(&p->ops, node);
}

static void ask_to_stop(struct peer *p)
{
	LOCK_SCOPE(&p->net->lock);
	for (struct list *node; (node = list_pop(&p->revokes));) {
		struct net_region *region = list_entry(node, struct net_region, asked);
		list_push(&p->asked, node);
		post_small(p, SESSION_REVOKE, region->ticket.key);
	}
}

void peer_take_work(struct peer *p)
{
	pthread_mutex_lock(&p->net->lock);
	bool cut = p->cut, drop = p->id && p->drop == p->id;
	int rc = p->drop_rc;
	uint64_t consumed = p->consumed;
	p->cut = false;
	pthread_mutex_unlock(&p->net->lock);
	take_copies(p);
	if (p->id && consumed - p->told >= WINDOW / 4) {
		p->told = consumed;
		post_small(p, SESSION_BEAT, consumed);
	}
	ask_to_stop(p);
	if (cut && p->id) {
		pthread_mutex_lock(&p->net->lock);
		p->deaf = true;
		pthread_mutex_unlock(&p->net->lock);
		copy_cut(p, -ECONNRESET);
	}
	if (drop)
		peer_end(p, rc, true);
	net_busy(p);
}
