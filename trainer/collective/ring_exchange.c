/*
 * One hop: header and payload go out to the next rank while header and payload come in from the previous one.
 * Both directions advance together, since neighbours that only sent would fill their buffers and stop.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "collective/ring_internal.h"
#include "common/deadline.h"

enum { PLACE_SIZE = 96 };

struct progress {
	struct ring *ring;
	const struct ring_hop *hop;
	struct ring_message sent, expected, received;
	size_t sent_bytes, received_bytes; /* of header and payload together */
	size_t staged;                     /* bytes in ring->staging that are not yet added */
	unsigned int turns;                /* that made progress */
	int64_t deadline;
};

static const char *collective_name(unsigned int collective)
{
	static const char *const names[RING_COLLECTIVES] = {
		[RING_ALL_REDUCE] = "all_reduce", [RING_REDUCE_SCATTER] = "reduce_scatter",
		[RING_ALL_GATHER] = "all_gather", [RING_GATHER] = "gather",
		[RING_BARRIER] = "barrier",
	};

	return collective < RING_COLLECTIVES && names[collective] ? names[collective] : "unknown collective";
}

const char *ring_type_text(unsigned int dtype)
{
	switch (dtype) {
	case CKPT_U8:
		return " of U8";
	case CKPT_F32:
		return " of F32";
	case CKPT_F64:
		return " of F64";
	case CKPT_I64:
		return " of I64";
	default:
		return "";
	}
}

/*
 * Whoever leaves first calls the others out of where they are. The next rank is to come to its next collective before that: where it is then
 * tells which of the two that differ is wrong. It closes the connection there, since nothing more comes from here; so does one that waits here
 * itself.
 */
static void await_next(struct ring *r, int64_t deadline)
{
	struct pollfd fds[2] = {{r->cancel_fd, POLLIN, 0}, {r->next_fd, POLLIN | POLLRDHUP, 0}};
	int n;

	ring_close(&r->previous_fd);
	shutdown(r->next_fd, SHUT_WR);
	do
		n = poll(fds, 2, deadline_left_ms(deadline));
	while (n < 0 && errno == EINTR);
}

/* "in all_reduce #12 of 4096 bytes of F32" */
static const char *describe(const struct ring_message *at, char text[PLACE_SIZE])
{
	snprintf(text, PLACE_SIZE, "in %s #%" PRIu64 " of %" PRIu64 " bytes%s", collective_name(at->collective),
		 at->sequence, at->total, ring_type_text(at->dtype));
	return text;
}

static int fail_mismatch(struct progress *p)
{
	const struct ring_message *got = &p->received, *want = &p->expected;
	char own[PLACE_SIZE], other[PLACE_SIZE];
	int peer = ring_rank_at(p->ring, -1);

	if (got->magic != RING_MAGIC)
		return ring_fail(p->ring, -EPROTO, "rank %d sent no message of this protocol", peer);
	await_next(p->ring, p->deadline);
	return ring_fail(p->ring, -EPROTO, "mismatch: rank %d is %s (hop %u), rank %d %s (hop %u)", p->ring->rank,
			 describe(want, own), want->hop, peer, describe(got, other), got->hop);
}

/* A socket error towards `peer`; a reset and a close are one thing to the caller. */
static int fail_socket(struct progress *p, int error, int peer)
{
	char where[PLACE_SIZE];

	if (error == EPIPE || error == ECONNRESET)
		return ring_fail(p->ring, -EPIPE, "rank %d has closed the connection %s", peer,
				 describe(&p->expected, where));
	return ring_fail(p->ring, -error, "connection to rank %d: %s %s", peer, strerror(error),
			 describe(&p->expected, where));
}

static bool sending(const struct progress *p)
{
	return p->sent_bytes < sizeof(p->sent) + p->hop->send_bytes;
}

static bool receiving(const struct progress *p)
{
	return p->received_bytes < sizeof(p->received) + p->hop->receive_bytes;
}

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Sends what the socket takes. Returns 1 after progress, 0 when it is full, or the ring's failure. */
static int send_part(struct progress *p)
{
	size_t head = min_size(p->sent_bytes, sizeof(p->sent)), body = p->sent_bytes - head;
	struct iovec iov[2] = {
		{(char *)&p->sent + head, sizeof(p->sent) - head},
		{(char *)p->hop->send + body, p->hop->send_bytes - body},
	};
	struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};
	ssize_t n = sendmsg(p->ring->next_fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : fail_socket(p, errno, ring_rank_at(p->ring, 1));
	p->sent_bytes += (size_t)n;
	return 1;
}

/* Adds the whole floats that are staged; a cut float stays, at the front. */
static void add_staged(struct progress *p)
{
	size_t payload = p->received_bytes - sizeof(p->received), count = p->staged / sizeof(float);
	float *to = (float *)p->hop->receive + (payload - p->staged) / sizeof(float);
	const float *from = p->ring->staging;
	char *bytes = (char *)p->ring->staging;

	for (size_t i = 0; i < count; i++)
		to[i] += from[i];
	p->staged -= count * sizeof(float);
	memmove(bytes, bytes + count * sizeof(float), p->staged);
}

/* Where the next payload bytes go: at most `left`. */
static struct iovec payload_room(struct progress *p, size_t body, size_t left)
{
	if (p->hop->add)
		return (struct iovec){(char *)p->ring->staging + p->staged,
				      min_size(left, RING_STAGING_BYTES - p->staged)};
	return (struct iovec){(char *)p->hop->receive + body, left};
}

/*
 * Receives what is there, header and payload in one call; the room is that of the payload we expect, so a
 * neighbour's mistake cannot overrun it. Returns as send_part().
 */
static int receive_part(struct progress *p)
{
	size_t head = min_size(p->received_bytes, sizeof(p->received)), body = p->received_bytes - head;
	struct iovec iov[2] = {
		{(char *)&p->received + head, sizeof(p->received) - head},
		payload_room(p, body, p->hop->receive_bytes - body),
	};
	struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};
	ssize_t n = recvmsg(p->ring->previous_fd, &message, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : fail_socket(p, errno, ring_rank_at(p->ring, -1));
	if (n == 0)
		return fail_socket(p, EPIPE, ring_rank_at(p->ring, -1));
	p->received_bytes += (size_t)n;
	if (p->received_bytes < sizeof(p->received))
		return 1;
	if (head < sizeof(p->received) && memcmp(&p->received, &p->expected, sizeof(p->expected)))
		return fail_mismatch(p);
	if (p->hop->add) {
		p->staged += p->received_bytes - sizeof(p->received) - body;
		add_staged(p);
	}
	return 1;
}

static int fail_timeout(struct progress *p)
{
	char where[PLACE_SIZE];

	if (receiving(p))
		return ring_fail(p->ring, -ETIMEDOUT, "timed out waiting for rank %d %s", ring_rank_at(p->ring, -1),
				 describe(&p->expected, where));
	return ring_fail(p->ring, -ETIMEDOUT, "timed out sending to rank %d %s", ring_rank_at(p->ring, 1),
			 describe(&p->expected, where));
}

/* Sleeps until a socket or the cancel descriptor is ready. */
static int wait_ready(struct progress *p)
{
	struct ring *r = p->ring;
	struct pollfd fds[3] = {
		{r->cancel_fd, POLLIN, 0},
		{receiving(p) ? r->previous_fd : -1, POLLIN, 0},
		{sending(p) ? r->next_fd : -1, POLLOUT, 0},
	};
	char where[PLACE_SIZE];
	int n = poll(fds, 3, deadline_left_ms(p->deadline));

	if (n < 0 && errno != EINTR)
		return ring_fail(r, -errno, "poll: %s", strerror(errno));
	if (n > 0 && fds[0].revents)
		return ring_fail(r, -ECANCELED, "canceled %s", describe(&p->expected, where));
	if (monotonic_ns() >= p->deadline)
		return fail_timeout(p);
	return 0;
}

static int advance(struct progress *p)
{
	int out = sending(p) ? send_part(p) : 0, in;

	if (out < 0)
		return out;
	in = receiving(p) ? receive_part(p) : 0;
	if (in < 0)
		return in;
	if (!sending(p) && !receiving(p))
		return 0;
	if ((in || out) && ++p->turns % 16) /* but look up now and then: a long transfer may never have to wait */
		return 0;
	return wait_ready(p);
}

int ring_exchange(struct ring *r, const struct ring_hop *hop, int64_t deadline)
{
	struct ring_message header = {
		.magic = RING_MAGIC,
		.collective = (uint8_t)hop->collective,
		.dtype = (uint8_t)hop->dtype,
		.hop = (uint16_t)hop->number,
		.sequence = r->sequence,
		.total = hop->total,
		.bytes = hop->send_bytes,
	};
	struct progress p = {.ring = r, .hop = hop, .sent = header, .expected = header, .deadline = deadline};
	int rc = 0;

	p.expected.bytes = hop->receive_bytes;
	while (rc == 0 && (sending(&p) || receiving(&p)))
		rc = advance(&p);
	return rc;
}
