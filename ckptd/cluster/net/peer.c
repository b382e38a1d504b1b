/* A session's life: calls until it is there, what it brings, its end. */
#include "cluster/net/engine.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

void peer_init(struct peer *p, struct net *net, unsigned node)
{
	struct list *const lists[] = {&p->work,     &p->ready,   &p->letters, &p->fresh, &p->ended,
				      &p->messages, &p->revokes, &p->asked,   &p->busy,  &p->smalls,
				      &p->ops,      &p->flying,  &p->parts,   &p->looks, &p->waiting};
	const struct roster_node *is = &net->roster->nodes[node];
	*p = (struct peer){.net = net, .node = node, .known = is->port, .expected = is->incarnation};
	memcpy(p->name, is->name, sizeof(p->name));
	for (unsigned i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		list_init(lists[i]);
	call_soon(p);
}

void peer_free(struct peer *p)
{
	for (struct list *node; (node = list_pop(&p->letters));)
		letter_free(list_entry(node, struct letter, link));
	for (struct list *node; (node = list_pop(&p->messages));) {
		struct message *m = list_entry(node, struct message, link);
		free(m->body);
		free(m);
	}
	wbuf_free(&p->whole);
	for (struct list *node; (node = list_pop(&p->parts));)
		free(list_entry(node, struct part, link));
	free(p->change);
}

void peer_set_open(struct peer *p, bool open)
{
	LOCK_SCOPE(&p->net->lock);
	p->open = open;
}

void peer_set_silent(struct peer *p, bool silent)
{
	if (p->silent != silent)
		p->net->nsilent += silent ? 1 : -1u;
	p->silent = silent;
}

static void say_session(struct peer *p, uint64_t session, int rc)
{
	LOCK_SCOPE(&p->net->lock);
	p->session_now = session;
	peer_set_silent(p, false);
	p->open = session;
	p->rc = rc;
	p->heard_last = max_u64(p->heard, p->heard_by_others);
	p->consumed = 0;
	p->deaf = false;
	if (session)
		p->net->counts.sessions++;
	net_tell(p);
}

static void hang_up(struct peer *p, struct link **l)
{
	net_bury(p->net, *l);
	*l = NULL;
}

static void clear(struct peer *p, int rc)
{
	uint64_t session = p->id;
	if (!session)
		return;
	log_debug("node %s: the session is over: %s", p->name, err_name(rc));
	copy_clear(p, rc == -ESHUTDOWN && p->net->stopping ? -ESHUTDOWN : -ECONNRESET);
	region_close_all(p, session);
	post_clear(p);
	inbox_clear(&p->inbox);
	hang_up(p, &p->link);
	p->id = 0;
	p->net->changed = true;
	say_session(p, 0, rc);
}

void peer_end(struct peer *p, int rc)
{
	clear(p, rc);
	call_end(p);
	call_soon(p);
	net_look_soon(p);
}

static void take_link(struct peer *p, struct link *l, const struct hello *hello)
{
	uint64_t now = clock_now();
	if (p->call == l)
		p->call = NULL;
	call_end(p);
	p->gave_way = false;
	p->link = l;
	l->peer = p;
	p->attempt = hello->attempt;
	p->address = hello->copies;
	parking_begin(&p->parking, p->net->idle, now);
	attend_begin(p, now);
	p->backoff_ms = BACKOFF_MIN_MS;
	p->reachable = p->net->way->reach(p);
	peer_set_open(p, true);
	p->told_rumours = false;
	link_read_ahead(l);
	net_read_again(p->net, l); /* more may have come with its hello */
}

static void begin(struct peer *p, struct link *l, const struct hello *hello)
{
	clear(p, -ECONNRESET); /* it has begun anew */
	p->incarnation = hello->incarnation;
	p->id = ++p->net->next_session;
	p->mine = p->attempts;
	p->theirs = hello->attempt;
	p->rumours = (struct rumours){.lost_at = 0};
	take_link(p, l, hello);
	say_session(p, p->id, 0);
}

/* The caller knows that both go on as soon as it is answered, and says something at once, so that the other side knows it, too. */
static void resume(struct peer *p, struct link *l, const struct hello *hello)
{
	log_debug("node %s: the session has a connection again", p->name);
	if (p->unsure)
		park_leave(p);
	take_link(p, l, hello);
	attend_use(p, p->heard);
	p->unsure = !l->caller;
	if (l->caller)
		attend_answer(p);
	net_busy(p);
}

/* ---- hellos ------------------------------------------------------------------------------------------------------ */

static void say_hello(struct peer *p, struct link *l, bool resumes)
{
	uint8_t body[FRAME_BODY_MAX];
	struct wbuf w = wbuf_over(body, sizeof(body));
	struct hello hello = p->net->self;
	snprintf(hello.to, sizeof(hello.to), "%s", p->name);
	hello.attempt = ++p->attempts;
	hello.resumes = resumes ? p->mine : 0;
	hello_encode(&hello, &w);
	link_write(l, FRAME_HELLO, body, w.len);
}

/* It said this before what was taken from it last: it has given that call up since. */
static bool is_stale(const struct peer *p, const struct hello *hello)
{
	return hello->incarnation == p->incarnation && hello->attempt <= p->attempt;
}

bool peer_hello(struct peer *p, struct link *l, const struct hello *hello)
{
	/* Where both call at once, the call of the lower index counts, once it has said hello: before that it may come to nothing. */
	bool ours = p->call && p->call->state == LINK_OPEN && p->net->self_index < p->node;
	if (is_stale(p, hello) || ours || park_resumes_early(p, hello))
		return false;
	bool resumes = park_resumes(p, hello);
	say_hello(p, l, resumes);
	(resumes ? resume : begin)(p, l, hello);
	net_busy(p);
	return true;
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

static int take_data(struct peer *p, const struct frame *frame)
{
	pthread_mutex_lock(&p->net->lock);
	uint64_t consumed = p->consumed;
	pthread_mutex_unlock(&p->net->lock);
	if (++p->taken - consumed > WINDOW)
		return -EPROTO;
	int rc = inbox_take(&p->inbox, frame->body, frame->len);
	return rc > 0 ? give_message(p) : rc;
}

static int take_confirmation(struct peer *p, enum frame_kind kind, uint64_t n)
{
	if ((kind != FRAME_BEAT && kind != FRAME_ASK) || n < p->confirmed || n > p->sent)
		return -EPROTO;
	p->confirmed = n;
	net_busy(p);
	if (kind == FRAME_ASK)
		attend_answer(p);
	return 0;
}

static int take_number(struct peer *p, enum frame_kind kind, uint64_t n)
{
	if (kind == FRAME_PARK || kind == FRAME_STAY)
		return park_heard(p, kind);
	if (kind == FRAME_REVOKE)
		copy_revoke(p, n);
	else if (kind == FRAME_REVOKED)
		region_released(p, n);
	else if (kind == FRAME_CLOCK_ASK)
		clocks_answer(p);
	else if (kind == FRAME_CLOCK)
		return clocks_take(p, n);
	else
		return take_confirmation(p, kind, n);
	return 0;
}

static void take_frame(struct peer *p, const struct frame *frame)
{
	struct rbuf r = rbuf_of(frame->body, frame->len);
	int rc = -EPROTO;
	attend_heard(p, frame);
	if (p->parking.heard) {
		log_debug("node %s says something after the last", p->name);
	} else if (frame->kind == FRAME_DATA) {
		rc = take_data(p, frame);
	} else if (frame->kind == FRAME_BYE) {
		park_link_ended(p, -ESHUTDOWN);
		rc = 0;
	} else if (frame->kind == FRAME_DOUBT || frame->kind == FRAME_LOST) {
		rc = rumour_heard(p, frame);
	} else {
		uint64_t n = rbuf_u64(&r);
		rc = rbuf_finish(&r) ? -EPROTO : take_number(p, frame->kind, n);
	}
	if (rc && p->id)
		peer_end(p, rc);
	pthread_mutex_lock(&p->net->lock);
	p->deaf = false;
	pthread_mutex_unlock(&p->net->lock);
}

/* ---- links ------------------------------------------------------------------------------------------------------- */

/* The answer to our own hello is one, of the node that we called. */
static void take_answer(struct peer *p, const struct frame *frame)
{
	struct hello hello;
	bool ok = frame->kind == FRAME_HELLO && peer_of_hello(p->net, p->call, frame, &hello) == p;
	if (ok && !is_stale(p, &hello))
		(park_resumes(p, &hello) ? resume : begin)(p, p->call, &hello);
	else
		call_fail(p, -EPROTO);
}

static void take_frames(struct peer *p, struct link *l)
{
	struct frame frame;
	for (unsigned n = 0; l->state == LINK_OPEN && n < FRAMES_A_TURN; n++) {
		int rc = link_read(l, &frame);
		if (!rc)
			return;
		if (l == p->call && rc > 0)
			take_answer(p, &frame);
		else if (l == p->call)
			call_fail(p, rc);
		else if (rc > 0)
			take_frame(p, &frame);
		else
			park_link_ended(p, rc);
		/* Questions and answers come one by one, messages in many frames. */
		if (rc > 0 && frame.kind != FRAME_DATA && link_is_dry(l))
			return;
	}
	if (l->state == LINK_OPEN)
		net_read_again(p->net, l);
}

void peer_ready(struct peer *p, struct link *l)
{
	if (l == p->asking.link) {
		asking_ready(p);
		return;
	}
	if (l != p->link && l != p->call) {
		answering_ready(p);
		return;
	}
	if (l->state != LINK_OPEN) {
		if (!call_go_on(p))
			return;
		say_hello(p, l, park_is(p));
	}
	if (l == p->call && link_flush(l)) {
		call_fail(p, -ECONNRESET);
		return;
	}
	take_frames(p, l);
	if (l == p->call)
		net_watch(p->net, l);
	else if (l == p->link)
		net_busy(p); /* there may be room now */
}

/* ---- the clock --------------------------------------------------------------------------------------------------- */

static bool is_copying(const struct peer *p)
{
	return !list_empty(&p->ops) || !list_empty(&p->flying) || p->nparts || (p->asking.link && !p->asking.ready);
}

void peer_tick(struct peer *p, uint64_t now)
{
	if (!p->known)
		return;
	if (!p->id) {
		call_tick(p, now);
		return;
	}
	copy_tick(p, now);
	if (p->link && is_copying(p))
		attend_use(p, now);
	if (p->link)
		attend_tick(p, now);
	if (p->id)
		park_tick(p, now);
}

uint64_t peer_due(const struct peer *p, uint64_t now)
{
	if (!p->known)
		return LIVENESS_NEVER;
	if (!p->id)
		return call_due(p);
	if (is_copying(p))
		return now;
	return min_u64(park_due(p, now), p->link ? liveness_due(&p->liveness, now) : LIVENESS_NEVER);
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
		post_small(p, FRAME_REVOKE, region->ticket.key);
	}
}

static void take_change(struct peer *p)
{
	pthread_mutex_lock(&p->net->lock);
	struct change *c = p->change;
	p->change = NULL;
	pthread_mutex_unlock(&p->net->lock);
	if (!c)
		return;
	bool moved = !c->node.port || memcmp(&c->where, &p->where, sizeof(c->where)) != 0;
	bool other = c->node.incarnation && c->node.incarnation != p->incarnation;
	roster_put(p->net->known, p->node, &c->node);
	memcpy(p->name, c->node.name, sizeof(p->name));
	p->known = c->node.port;
	p->expected = c->node.incarnation;
	p->where = c->where;
	free(c);
	if (moved || other || !p->id)
		peer_end(p, -ECONNRESET);
}

void peer_take_work(struct peer *p)
{
	take_change(p);
	pthread_mutex_lock(&p->net->lock);
	bool cut = p->cut, drop = p->id && p->drop == p->id;
	int rc = p->drop_rc;
	uint64_t consumed = p->consumed;
	p->cut = false;
	pthread_mutex_unlock(&p->net->lock);
	bool answer = park_take_answer(p);
	take_copies(p);
	if (p->id && consumed - p->told >= WINDOW / 4) {
		p->told = consumed;
		post_small(p, FRAME_BEAT, consumed);
	}
	ask_to_stop(p);
	if (cut && p->id) {
		pthread_mutex_lock(&p->net->lock);
		p->deaf = true;
		pthread_mutex_unlock(&p->net->lock);
		copy_cut(p, -ECONNRESET);
	}
	if (drop)
		peer_end(p, rc);
	if (!answer)
		park_want(p, clock_now());
	if (p->link && !answer)
		attend_use(p, clock_now());
	net_look_soon(p);
	net_busy(p);
}
