/* Frames out: control frames first, then messages, as far as the window and what is in flight allow. */
#include "cluster/net/engine.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

static struct buffer *take_buffer(struct net *net)
{
	struct list *node = list_pop(&net->spare);
	return node ? list_entry(node, struct buffer, link) : malloc(sizeof(struct buffer));
}

static void give_buffer(struct net *net, struct buffer *buffer)
{
	list_init(&buffer->link);
	list_push(&net->spare, &buffer->link);
}

/* -EAGAIN: libfabric wants it later, the buffer is still ours. */
static int send_buffer(struct peer *p, struct buffer *buffer)
{
	buffer->peer = p;
	buffer->session = p->id;
	ssize_t rc = fi_send(p->net->messages.ep, buffer->frame.bytes, buffer->frame.len, NULL, p->frames.peer, buffer);
	rail_posted(&p->frames, rc);
	if (rc)
		return rc == -FI_EAGAIN ? -EAGAIN : -ECONNRESET;
	p->sending++;
	return 0;
}

static void stall(struct peer *p, struct buffer *buffer)
{
	if (!p->stalled_at)
		p->stalled_at = clock_now();
	p->stalled = buffer;
}

/* What libfabric refuses for good is found by silence: the frames behind it are out of order then. */
static bool send_or_stall(struct peer *p, struct buffer *buffer)
{
	int rc = send_buffer(p, buffer);
	if (rc == -EAGAIN)
		stall(p, buffer);
	else if (rc)
		give_buffer(p->net, buffer);
	else
		p->stalled_at = 0;
	return !rc;
}

void post_reply(struct peer *p, const struct session_frame *frame)
{
	struct buffer *buffer = p->stalled ? NULL : take_buffer(p->net);
	if (!buffer)
		return;
	memcpy(buffer->frame.bytes, frame->bytes, frame->len);
	buffer->frame.len = frame->len;
	send_or_stall(p, buffer);
	net_busy(p);
}

int post_call(struct peer *p)
{
	struct buffer *buffer = take_buffer(p->net);
	if (!buffer)
		return -ENOMEM;
	session_call(&p->session, &buffer->frame);
	int rc = send_buffer(p, buffer);
	if (rc)
		give_buffer(p->net, buffer);
	return rc;
}

void post_small(struct peer *p, enum session_kind kind, uint64_t value)
{
	struct small *small = p->nsmalls < SMALL_MAX ? malloc(sizeof(*small)) : NULL;
	if (!small)
		return; /* the other side waits in vain, and cuts */
	*small = (struct small){.kind = kind, .value = value};
	list_push(&p->smalls, &small->link);
	p->nsmalls++;
	net_busy(p);
}

void post_done(struct net *net, struct buffer *buffer, int rc)
{
	struct peer *p = buffer->peer;
	p->sending--;
	uint64_t session = buffer->session;
	give_buffer(net, buffer);
	if (rc && session && session == p->id)
		peer_end(p, -ECONNRESET, true);
	else
		net_busy(p);
}

static bool send_sealed(struct peer *p, enum session_kind kind, const void *body, size_t len)
{
	struct buffer *buffer = take_buffer(p->net);
	if (!buffer)
		return false;
	session_seal(&p->session, kind, body, len, &buffer->frame);
	p->said = clock_now();
	return send_or_stall(p, buffer);
}

static bool push_small(struct peer *p)
{
	struct small *small = list_entry(list_pop(&p->smalls), struct small, link);
	uint8_t body[8];
	struct wbuf w = {.data = body, .cap = sizeof(body)};
	wbuf_u64(&w, small->value);
	p->nsmalls--;
	enum session_kind kind = small->kind;
	free(small);
	return send_sealed(p, kind, body, sizeof(body));
}

static void drop_letter(struct peer *p, struct letter *letter)
{
	LOCK_SCOPE(&p->net->lock);
	list_remove(&letter->link);
	p->nletters--;
	p->letter_bytes -= letter->len;
	free(letter);
}

/* The first letter of this session; those of others are dropped. */
static struct letter *next_letter(struct peer *p)
{
	for (;;) {
		pthread_mutex_lock(&p->net->lock);
		bool none = list_empty(&p->letters);
		struct letter *letter = none ? NULL : list_entry(p->letters.next, struct letter, link);
		pthread_mutex_unlock(&p->net->lock);
		if (!letter || letter->session == p->id)
			return letter;
		drop_letter(p, letter);
	}
}

static bool push_letter(struct peer *p, struct letter *letter)
{
	uint8_t body[SESSION_BODY_MAX];
	size_t head = letter->begun ? 0 : INBOX_HEAD;
	size_t n = min_u64(letter->len - letter->sent, sizeof(body) - head);
	if (head)
		inbox_write_head(body, letter->type, letter->len);
	memcpy(body + head, letter->body + letter->sent, n);
	letter->begun = true;
	letter->sent += n;
	p->sent++;
	if (letter->sent == letter->len)
		drop_letter(p, letter);
	return send_sealed(p, SESSION_DATA, body, head + n);
}

bool post_push(struct peer *p)
{
	if (p->stalled) {
		struct buffer *buffer = p->stalled;
		p->stalled = NULL;
		if (!send_or_stall(p, buffer))
			return p->stalled;
	}
	while (p->id && p->sending < SEND_DEPTH && !p->stalled) {
		struct letter *letter = NULL;
		if (!list_empty(&p->smalls))
			push_small(p);
		else if (p->sent - p->confirmed < WINDOW && (letter = next_letter(p)))
			push_letter(p, letter);
		else
			break;
	}
	return p->stalled;
}

void post_clear(struct peer *p)
{
	for (struct list *node; (node = list_pop(&p->smalls));)
		free(list_entry(node, struct small, link));
	p->nsmalls = 0;
	if (p->stalled)
		give_buffer(p->net, p->stalled);
	p->stalled = NULL;
	p->stalled_at = 0;
	p->sent = p->confirmed = p->taken = p->told = 0;
	for (struct letter *letter; (letter = next_letter(p));)
		drop_letter(p, letter);
}
