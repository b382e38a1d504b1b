#include "guests.h"

#include "base/channel.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "format/message/wire.h"
#include "overview.h"
#include "runtime/room.h"

#include <stdio.h>
#include <sys/epoll.h>

struct guest {
	struct guests *guests;
	int sock; /* -1: put through */
	struct watch *watch;
	uint64_t deadline;
};

static void leave(struct guest *g)
{
	watch_remove(g->watch);
	if (g->sock >= 0)
		undertaker_bury(&g->guests->users->undertaker, g->sock);
	for (int i = 0; i < GUESTS_MAX; i++)
		if (g->guests->all[i] == g)
			g->guests->all[i] = NULL;
	free(g);
}

static int say(struct guest *g, uint16_t type, uint32_t seq, const struct wbuf *body)
{
	return channel_send(g->sock, type, seq, body->data, body->len, NULL, 0, 0);
}

static int say_error(struct guest *g, uint32_t seq, int rc, const char *text)
{
	AUTO_WBUF struct wbuf body = {0};
	struct wire_error m = {.rc = rc};
	snprintf(m.text, sizeof(m.text), "%s", text);
	rc = wire_error_encode(&m, &body);
	return rc ? rc : say(g, WIRE_ERROR, seq, &body);
}

static int welcome(struct guest *g, uint32_t seq)
{
	AUTO_WBUF struct wbuf body = {0};
	struct wire_welcome m = {.protocol = WIRE_PROTOCOL};
	snprintf(m.node, sizeof(m.node), "%s", g->guests->users->config.node);
	snprintf(m.version, sizeof(m.version), "%s", CKPT_VERSION);
	int rc = wire_welcome_encode(&m, &body);
	return rc ? rc : say(g, WIRE_WELCOME, seq, &body);
}

static int greet(struct guest *g, const struct frame *f)
{
	struct wire_hello m;
	struct err err = {{0}};
	int rc = wire_hello_decode(f->body, f->len, &m, &err);
	if (rc)
		return say_error(g, f->seq, rc, err.text);
	if (m.role != ROLE_OBSERVER)
		return say_error(g, f->seq, -EPERM, "a system service has no jobs of root: start a ckptd of your own");
	return welcome(g, f->seq);
}

static int show(struct guest *g, uint32_t seq)
{
	AUTO_WBUF struct wbuf body = {0};
	int rc = overview_encode(g->guests->users, g->guests->started_ns, &body);
	return rc ? rc : say(g, WIRE_STATUS, seq, &body);
}

/* A non-zero result ends the visit. */
static int put_through(struct guest *g, const struct frame *f)
{
	struct wire_user m;
	struct err err = {{0}};
	int rc = wire_user_decode(f->body, f->len, &m, &err);
	if (!rc) {
		/* Before it is sent: what root says next is the worker's. */
		watch_remove(g->watch);
		g->watch = NULL;
		rc = users_visit(g->guests->users, m.name, g->sock, &err);
		if (!rc)
			g->sock = -1;
	}
	if (rc)
		(void)say_error(g, 1, rc, err.text);
	return -EPIPE;
}

static int on_frame(struct guest *g, const struct frame *f)
{
	switch (f->type) {
	case WIRE_USER:
		return put_through(g, f);
	case WIRE_HELLO:
		return greet(g, f);
	case WIRE_STATUS:
		return show(g, f->seq);
	default:
		return say_error(g, f->seq, -EINVAL, "name the user whose job it is: --user NAME");
	}
}

static void on_guest(void *arg, uint32_t events)
{
	struct guest *g = arg;
	AUTO_FREE struct frame *f = calloc(1, sizeof(*f));
	(void)events;
	int rc = f ? channel_recv(g->sock, f, 0) : -ENOMEM;
	if (!rc) {
		rc = on_frame(g, f);
		frame_free(f);
	}
	if (rc && rc != -EAGAIN)
		leave(g);
}

void guests_add(struct guests *guests, int sock)
{
	int i = 0;
	while (i < GUESTS_MAX && guests->all[i])
		i++;
	struct guest *g = i < GUESTS_MAX ? calloc(1, sizeof(*g)) : NULL;
	if (g)
		*g = (struct guest){guests, sock, NULL, clock_deadline(GUEST_MS * CLOCK_NS_PER_MS)};
	if (g)
		g->watch = loop_watch(guests->users->loop, sock, EPOLLIN, on_guest, g);
	if (!g || !g->watch) {
		free(g);
		users_refuse(guests->users, sock, -EAGAIN, "too many look at this service already");
		return;
	}
	guests->all[i] = g;
}

void guests_tick(struct guests *guests)
{
	uint64_t now = clock_now();
	for (int i = 0; i < GUESTS_MAX; i++)
		if (guests->all[i] && now > guests->all[i]->deadline)
			leave(guests->all[i]);
}

void guests_free(struct guests *guests)
{
	for (int i = 0; i < GUESTS_MAX; i++)
		if (guests->all[i])
			leave(guests->all[i]);
}
