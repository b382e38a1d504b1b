/* Frames out: control frames first, then messages, as far as the window and the link's room allow. */
#include "cluster/net/engine.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

static void post(struct peer *p, enum frame_kind kind, const uint8_t *body, size_t len)
{
	struct small *small = p->nsmalls < SMALL_MAX ? malloc(sizeof(*small)) : NULL;
	if (!small)
		return; /* the other side waits in vain, and cuts */
	*small = (struct small){.kind = kind, .len = (uint8_t)len};
	memcpy(small->body, body, len);
	list_push(&p->smalls, &small->link);
	p->nsmalls++;
	net_busy(p);
}

void post_small(struct peer *p, enum frame_kind kind, uint64_t value)
{
	uint8_t body[8];
	struct wbuf w = wbuf_over(body, sizeof(body));
	wbuf_u64(&w, value);
	post(p, kind, body, w.len);
}

void post_rumour(struct peer *p, enum frame_kind kind, const struct rumour *rumour)
{
	uint8_t body[RUMOUR_BYTES];
	struct wbuf w = wbuf_over(body, sizeof(body));
	rumour_encode(rumour, &w);
	post(p, kind, body, w.len);
}

static void push_small(struct peer *p)
{
	struct small *small = list_entry(list_pop(&p->smalls), struct small, link);
	p->nsmalls--;
	link_write(p->link, small->kind, small->body, small->len);
	free(small);
}

void letter_free(struct letter *letter)
{
	net_body_drop(letter->body);
	free(letter);
}

static void drop_letter(struct peer *p, struct letter *letter)
{
	LOCK_SCOPE(&p->net->lock);
	list_remove(&letter->link);
	p->nletters--;
	p->letter_bytes -= letter->own;
	letter_free(letter);
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

static void push_letter(struct peer *p, struct letter *letter)
{
	uint8_t body[FRAME_BODY_MAX];
	size_t left = letter->body->len - letter->sent, at = letter->sent % NET_MESSAGE_MAX;
	size_t head = at ? 0 : INBOX_HEAD;
	size_t n = min_u64(min_u64(left, NET_MESSAGE_MAX - at), sizeof(body) - head);
	uint16_t more = left > NET_MESSAGE_MAX ? MESSAGE_MORE : 0;
	if (head)
		inbox_write_head(body, letter->type | more, min_u64(left, NET_MESSAGE_MAX));
	memcpy(body + head, letter->body->bytes + letter->sent, n);
	letter->sent += n;
	p->sent++;
	if (letter->sent == letter->body->len)
		drop_letter(p, letter);
	link_write(p->link, FRAME_DATA, body, head + n);
}

/* One frame; false: there is none, or no room for it. */
static bool push(struct peer *p)
{
	struct letter *letter = NULL;
	if (p->unsure || p->parking.said || !link_has_room(p->link, FRAME_BODY_MAX))
		return false;
	if (!list_empty(&p->smalls))
		push_small(p);
	else if (p->sent - p->confirmed < WINDOW && (letter = next_letter(p)))
		push_letter(p, letter);
	else
		return false;
	return true;
}

void post_push(struct peer *p)
{
	while (p->link) {
		while (push(p))
			;
		bool full = p->link->out_len > 0;
		if (full && link_flush(p->link)) {
			park_link_ended(p, -ECONNRESET);
			return;
		}
		if (!full || p->link->stuck)
			break;
	}
	if (!p->link)
		return;
	net_watch(p->net, p->link);
	park_flushed(p);
}

void post_clear(struct peer *p)
{
	for (struct list *node; (node = list_pop(&p->smalls));)
		free(list_entry(node, struct small, link));
	p->nsmalls = 0;
	p->sent = p->confirmed = p->taken = p->told = 0;
	for (struct letter *letter; (letter = next_letter(p));)
		drop_letter(p, letter);
}
