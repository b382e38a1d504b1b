#include "remote/bridge.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A daemon takes a question, and a pipe what is written, within this time, or is not there. */
#define SEND_NS (10 * CLOCK_NS_PER_S)

enum { READ_BYTES = 65536 };

struct head {
	uint32_t number, kind, type, seq, len;
};

void bridge_init(struct bridge *b, int in, int out, const char *path)
{
	*b = (struct bridge){.in = in, .out = out, .path = path, .send_ns = SEND_NS};
	fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK); /* a write waits no longer than poll() does */
	for (size_t i = 0; i < BRIDGE_CONNECTIONS_MAX; i++)
		b->at[i].sock = -1;
}

static void drop(struct bridge *b, size_t i)
{
	close(b->at[i].sock);
	b->at[i].sock = -1;
	b->at[i].number = 0;
}

void bridge_close(struct bridge *b)
{
	for (size_t i = 0; i < BRIDGE_CONNECTIONS_MAX; i++)
		if (b->at[i].number)
			drop(b, i);
	free(b->data);
	b->data = NULL;
	b->used = b->room = 0;
}

/* BRIDGE_CONNECTIONS_MAX: it is not there. */
static size_t find(const struct bridge *b, uint32_t number)
{
	size_t i = 0;
	while (i < BRIDGE_CONNECTIONS_MAX && b->at[i].number != number)
		i++;
	return i;
}

void bridge_add(struct bridge *b, uint32_t number, int sock)
{
	size_t i = find(b, 0);
	if (i == BRIDGE_CONNECTIONS_MAX) {
		close(sock);
		return;
	}
	b->at[i].number = number;
	b->at[i].sock = sock;
}

nfds_t bridge_poll(const struct bridge *b, struct pollfd fds[BRIDGE_FDS])
{
	fds[0] = (struct pollfd){.fd = b->in, .events = POLLIN};
	for (size_t i = 0; i < BRIDGE_CONNECTIONS_MAX; i++)
		fds[i + 1] = (struct pollfd){.fd = b->at[i].sock, .events = POLLIN};
	return BRIDGE_FDS;
}

/* ---- to the other end ---------------------------------------------------------------------------------------------- */

static int write_all(int fd, const void *data, size_t len, uint64_t deadline)
{
	const uint8_t *at = data;
	while (len) {
		struct pollfd p = {.fd = fd, .events = POLLOUT};
		poll(&p, 1, clock_ms_until(deadline));
		ssize_t n = write(fd, at, len);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return -EPIPE;
		at += n < 0 ? 0 : n;
		len -= n < 0 ? 0 : (size_t)n;
		if (len && clock_now() >= deadline)
			return -EPIPE;
	}
	return 0;
}

int bridge_greet(const struct bridge *b)
{
	return write_all(b->out, BRIDGE_GREETING, strlen(BRIDGE_GREETING), clock_deadline(b->send_ns));
}

static int say(const struct bridge *b, const struct head *head, const void *body)
{
	uint64_t deadline = clock_deadline(b->send_ns);
	int rc = b->out < 0 ? -EPIPE : write_all(b->out, head, sizeof(*head), deadline);
	return rc ? rc : write_all(b->out, body, head->len, deadline);
}

static int say_closed(const struct bridge *b, uint32_t number)
{
	struct head head = {.number = number, .kind = BRIDGE_CLOSED};
	return say(b, &head, NULL);
}

/* A frame of the connection, or its end. */
static int carry_away(struct bridge *b, size_t i)
{
	struct frame f;
	uint32_t number = b->at[i].number;
	if (channel_recv(b->at[i].sock, &f, clock_deadline(SEND_NS))) {
		drop(b, i);
		return say_closed(b, number);
	}
	struct head head = {
		.number = number, .kind = BRIDGE_FRAME, .type = f.type, .seq = f.seq, .len = (uint32_t)f.len};
	int rc = f.len <= BRIDGE_BODY_MAX ? say(b, &head, f.body) : -EBADMSG;
	frame_free(&f);
	return rc;
}

/* ---- from the other end -------------------------------------------------------------------------------------------- */

static size_t reach(struct bridge *b, uint32_t number)
{
	struct err ignored = {""};
	int sock = b->path ? channel_connect(b->path, clock_deadline(SEND_NS), &ignored) : -1;
	if (sock >= 0)
		bridge_add(b, number, sock);
	return find(b, number);
}

static int take(struct bridge *b, const struct head *head, const uint8_t *body)
{
	size_t i = find(b, head->number);
	bool closed = head->kind == BRIDGE_CLOSED, known = i < BRIDGE_CONNECTIONS_MAX;
	if (closed && known)
		drop(b, i);
	if (closed || (!known && !b->path)) /* this end has closed it before */
		return 0;
	if (!known)
		i = reach(b, head->number);
	if (i == BRIDGE_CONNECTIONS_MAX)
		return say_closed(b, head->number);
	if (!channel_send(b->at[i].sock, (uint16_t)head->type, head->seq, body, head->len, NULL, 0,
			  clock_deadline(SEND_NS)))
		return 0;
	drop(b, i);
	return say_closed(b, head->number);
}

static bool is_sound(const struct head *head)
{
	return head->number && (head->kind == BRIDGE_FRAME || head->kind == BRIDGE_CLOSED) &&
	       head->type <= UINT16_MAX && head->len <= BRIDGE_BODY_MAX;
}

/* Where the records begin; -EAGAIN: that has not come yet. */
static int pass_greeting(struct bridge *b, size_t *from)
{
	size_t len = strlen(BRIDGE_GREETING);
	const uint8_t *at = memmem(b->data, b->used, BRIDGE_GREETING, len);
	if (!at)
		return b->used < BRIDGE_BEFORE_MAX + len ? -EAGAIN : -EBADMSG;
	*from = (size_t)(at - b->data) + len;
	b->waits = false;
	return 0;
}

/* All that is whole. */
static int take_records(struct bridge *b)
{
	size_t from = 0;
	int rc = b->waits ? pass_greeting(b, &from) : 0;
	if (rc)
		return rc == -EAGAIN ? 0 : rc;
	while (!rc && b->used - from >= sizeof(struct head)) {
		struct head head;
		memcpy(&head, b->data + from, sizeof(head));
		if (!is_sound(&head))
			return -EBADMSG;
		if (b->used - from < sizeof(head) + head.len)
			break;
		rc = take(b, &head, b->data + from + sizeof(head));
		from += sizeof(head) + head.len;
	}
	memmove(b->data, b->data + from, b->used - from);
	b->used -= from;
	return rc;
}

static int carry_in(struct bridge *b)
{
	if (b->room - b->used < READ_BYTES) {
		size_t room = 2 * b->room + READ_BYTES;
		void *more = room <= 4 * (size_t)BRIDGE_BODY_MAX ? realloc(b->data, room) : NULL;
		if (!more)
			return -ENOMEM;
		b->data = more;
		b->room = room;
	}
	ssize_t n = read(b->in, b->data + b->used, b->room - b->used);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return -EPIPE;
	b->used += (size_t)n;
	return take_records(b);
}

int bridge_turn(struct bridge *b, const struct pollfd fds[BRIDGE_FDS])
{
	int rc = fds[0].revents ? carry_in(b) : 0;
	for (size_t i = 0; !rc && i < BRIDGE_CONNECTIONS_MAX; i++)
		if (fds[i + 1].revents && b->at[i].number && b->at[i].sock == fds[i + 1].fd)
			rc = carry_away(b, i);
	return rc;
}
