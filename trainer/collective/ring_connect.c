/*
 * From listening to connected. Both neighbours are met at once, by one poll loop: a rank that waited for its
 * next rank's reply before it answered its previous rank would deadlock the whole ring.
 */
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "collective/ring_internal.h"
#include "common/deadline.h"

enum { CANDIDATES = 4 }; /* connections that have not yet said who they are; the oldest yields to a newer one */

enum next_stage {
	NEXT_CONNECTING,
	NEXT_REPLY_DUE,
	NEXT_READY,
};

struct candidate {
	int fd;
	size_t got;
	struct ring_hello hello;
};

struct meeting {
	struct ring *ring;
	enum next_stage stage;
	uint8_t next_nonce[RING_NONCE_SIZE];
	size_t reply_got;
	struct ring_reply reply;
	struct candidate candidates[CANDIDATES];
	size_t oldest;
};

/* Reads towards `size` bytes. Returns 1 when complete, 0 when more is due, or -errno. */
static int read_part(int fd, void *to, size_t size, size_t *got)
{
	ssize_t n = recv(fd, (char *)to + *got, size - *got, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -EPIPE;
	*got += (size_t)n;
	return *got == size;
}

/* Small answers must leave at once: a ring waits for its slowest hop. */
static void set_no_delay(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* slower without, but not wrong */
}

static int start_next(struct meeting *m, const char *address)
{
	struct ring *r = m->ring;
	struct sockaddr_storage to;
	int peer = ring_rank_at(r, 1);

	if (ring_address_parse(address, &to, m->next_nonce) < 0)
		return ring_fail(r, -EINVAL, "bad address of rank %d", peer);
	r->next_fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (r->next_fd < 0)
		return ring_fail(r, -errno, "socket: %s", strerror(errno));
	set_no_delay(r->next_fd);
	if (connect(r->next_fd, (struct sockaddr *)&to, ring_address_length(&to)) < 0 && errno != EINPROGRESS)
		return ring_fail(r, -errno, "cannot connect to rank %d: %s", peer, strerror(errno));
	return 0;
}

static int send_hello(struct meeting *m)
{
	struct ring *r = m->ring;
	struct ring_hello hello = {.magic = RING_MAGIC,
				   .version = RING_VERSION,
				   .rank = (uint32_t)r->rank,
				   .world = (uint32_t)r->world,
				   .epoch = r->epoch};
	int peer = ring_rank_at(r, 1), error = 0;
	socklen_t length = sizeof(error);

	getsockopt(r->next_fd, SOL_SOCKET, SO_ERROR, &error, &length);
	if (error)
		return ring_fail(r, -error, "cannot connect to rank %d: %s", peer, strerror(error));
	memcpy(hello.nonce, m->next_nonce, sizeof(hello.nonce));
	/* a new connection's buffer takes 40 bytes at once */
	if (send(r->next_fd, &hello, sizeof(hello), MSG_NOSIGNAL) != (ssize_t)sizeof(hello))
		return ring_fail(r, -EPIPE, "rank %d closed the connection before the handshake", peer);
	m->stage = NEXT_REPLY_DUE;
	return 0;
}

static int judge_reply(struct meeting *m)
{
	struct ring *r = m->ring;
	const struct ring_reply *reply = &m->reply;
	int peer = ring_rank_at(r, 1);

	if (reply->magic != RING_MAGIC || reply->version != RING_VERSION)
		return ring_fail(r, -EPROTO, "rank %d speaks another protocol", peer);
	if (reply->outcome == RING_OTHER_EPOCH)
		return ring_fail(r, -ESTALE, "rank %d refused epoch %" PRIu64 ": it is at epoch %" PRIu64, peer,
				 r->epoch, reply->epoch);
	if (reply->outcome != RING_ACCEPTED)
		return ring_fail(r, -EPROTO, "rank %d of %d refused rank %d of %d: the addresses are not this group's",
				 (int)reply->rank, (int)reply->world, r->rank, r->world);
	m->stage = NEXT_READY;
	return 0;
}

static int serve_next(struct meeting *m)
{
	struct ring *r = m->ring;
	int rc;

	if (m->stage == NEXT_CONNECTING)
		return send_hello(m);
	rc = read_part(r->next_fd, &m->reply, sizeof(m->reply), &m->reply_got);
	if (rc < 0)
		return ring_fail(r, -EPIPE, "rank %d closed the connection during the handshake", ring_rank_at(r, 1));
	return rc ? judge_reply(m) : 0;
}

static void accept_candidate(struct meeting *m)
{
	int fd = accept4(m->ring->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct candidate *c = &m->candidates[m->oldest];

	if (fd < 0)
		return; /* it has gone again */
	set_no_delay(fd);
	ring_close(&c->fd);
	*c = (struct candidate){.fd = fd};
	m->oldest = (m->oldest + 1) % CANDIDATES;
}

static enum ring_outcome judge_hello(const struct ring *r, const struct ring_hello *hello)
{
	if (hello->epoch != r->epoch)
		return RING_OTHER_EPOCH;
	if (memcmp(hello->nonce, r->nonce, sizeof(r->nonce)))
		return RING_OTHER_LISTENER;
	if (hello->rank != (uint32_t)ring_rank_at(r, -1) || hello->world != (uint32_t)r->world)
		return RING_NOT_NEIGHBOUR;
	return RING_ACCEPTED;
}

/* Answers a complete hello; a stranger (no magic) gets no answer. */
static void answer(struct meeting *m, struct candidate *c)
{
	struct ring *r = m->ring;
	struct ring_reply reply = {.magic = RING_MAGIC,
				   .version = RING_VERSION,
				   .rank = (uint32_t)r->rank,
				   .world = (uint32_t)r->world,
				   .epoch = r->epoch};
	enum ring_outcome outcome = judge_hello(r, &c->hello);
	bool known = c->hello.magic == RING_MAGIC && c->hello.version == RING_VERSION;

	reply.outcome = (uint16_t)outcome;
	if (!known || send(c->fd, &reply, sizeof(reply), MSG_NOSIGNAL) != (ssize_t)sizeof(reply) ||
	    outcome != RING_ACCEPTED) {
		ring_close(&c->fd);
		return;
	}
	r->previous_fd = c->fd;
	c->fd = -1;
}

static void serve_candidate(struct meeting *m, struct candidate *c)
{
	int rc = read_part(c->fd, &c->hello, sizeof(c->hello), &c->got);

	if (rc < 0)
		ring_close(&c->fd);
	else if (rc > 0)
		answer(m, c);
}

/* Waits for any event and serves all. */
static int meet_once(struct meeting *m, int64_t deadline)
{
	struct ring *r = m->ring;
	struct pollfd p[3 + CANDIDATES] = {
		{r->cancel_fd, POLLIN, 0},
		{m->stage == NEXT_READY ? -1 : r->next_fd, m->stage == NEXT_CONNECTING ? POLLOUT : POLLIN, 0},
		{r->previous_fd < 0 ? r->listen_fd : -1, POLLIN, 0},
	};
	int rc = 0;

	for (size_t i = 0; i < CANDIDATES; i++)
		p[3 + i] = (struct pollfd){m->candidates[i].fd, POLLIN, 0};
	if (poll(p, 3 + CANDIDATES, deadline_left_ms(deadline)) < 0)
		return errno == EINTR ? 0 : ring_fail(r, -errno, "poll: %s", strerror(errno));
	if (p[0].revents)
		return ring_fail(r, -ECANCELED, "canceled while connecting");
	if (monotonic_ns() >= deadline)
		return ring_fail(r, -ETIMEDOUT, "timed out while connecting: rank %d has not %s",
				 ring_rank_at(r, r->previous_fd < 0 ? -1 : 1),
				 r->previous_fd < 0 ? "connected" : "answered");
	if (p[1].revents)
		rc = serve_next(m);
	for (size_t i = 0; i < CANDIDATES && rc == 0 && r->previous_fd < 0; i++)
		if (p[3 + i].revents)
			serve_candidate(m, &m->candidates[i]);
	if (p[2].revents && rc == 0 && r->previous_fd < 0)
		accept_candidate(m); /* last, since it may close a candidate that was just polled */
	return rc;
}

static int meet(struct ring *r, const char *next_address, int64_t deadline)
{
	struct meeting m = {.ring = r};
	int rc;

	for (size_t i = 0; i < CANDIDATES; i++)
		m.candidates[i].fd = -1;
	rc = start_next(&m, next_address);
	while (rc == 0 && (m.stage != NEXT_READY || r->previous_fd < 0))
		rc = meet_once(&m, deadline);
	for (size_t i = 0; i < CANDIDATES; i++)
		ring_close(&m.candidates[i].fd);
	return rc;
}

int ring_connect(struct ring *r, const struct ring_group *group, int64_t deadline)
{
	int rc = 0;

	if (r->state == RING_FAILED)
		return r->failure;
	if (r->state != RING_LISTENING || group->world < 1 || group->world > RING_MAX_WORLD || group->rank < 0 ||
	    group->rank >= group->world)
		return -EINVAL;
	r->rank = group->rank;
	r->world = group->world;
	r->epoch = group->epoch;
	r->cancel_fd = group->cancel_fd;
	r->small = malloc((size_t)r->world * RING_SMALL_BYTES);
	r->staging = malloc(RING_STAGING_BYTES);
	if (!r->small || !r->staging)
		return ring_fail(r, -ENOMEM, "out of memory");
	if (r->world > 1)
		rc = meet(r, group->addresses[ring_rank_at(r, 1)], deadline);
	if (rc < 0)
		return rc;
	ring_close(&r->listen_fd); /* a late or stale peer is refused by the kernel from now on */
	r->state = RING_CONNECTED;
	return 0;
}
