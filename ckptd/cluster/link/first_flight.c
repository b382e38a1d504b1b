#include "cluster/link/first_flight.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <sys/socket.h>

/* A record, and the message in it (RFC 8446, 5.1 and 4). */
enum { RECORD_HEAD = 5, MESSAGE_HEAD = 4, HEADS = RECORD_HEAD + MESSAGE_HEAD, HANDSHAKE = 22, CLIENT_HELLO = 1 };

static void await_bytes(int fd, int n)
{
	setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &n, sizeof(n));
}

void first_flight_await(int fd)
{
	await_bytes(fd, HEADS);
}

/* Of the record that begins so, and holds the whole message. */
static int length(const uint8_t head[HEADS])
{
	unsigned record = (unsigned)head[3] << 8 | head[4], message = (unsigned)head[6] << 16 | head[7] << 8 | head[8];
	bool whole = MESSAGE_HEAD + message <= record && RECORD_HEAD + record <= FIRST_FLIGHT_MAX;
	return head[0] == HANDSHAKE && head[5] == CLIENT_HELLO && whole ? (int)(RECORD_HEAD + record) : -EACCES;
}

bool first_flight_is_cut(int fd)
{
	struct tcp_info info = {.tcpi_state = 0};
	socklen_t len = sizeof(info);
	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 || info.tcpi_state != TCP_ESTABLISHED;
}

/* 1: so many bytes are there, which stay where they are. */
static int peek(int fd, void *out, int want)
{
	ssize_t n = recv(fd, out, (size_t)want, MSG_PEEK | MSG_DONTWAIT);
	if (n == want)
		return 1;
	if (!n || (n < 0 && errno != EAGAIN && errno != EINTR) || first_flight_is_cut(fd))
		return -ECONNRESET;
	await_bytes(fd, want);
	return 0;
}

int first_flight_come(int fd)
{
	uint8_t call[FIRST_FLIGHT_MAX];
	int rc = peek(fd, call, HEADS);
	int len = rc > 0 ? length(call) : rc;
	rc = len > 0 ? peek(fd, call, len) : len;
	if (rc > 0)
		await_bytes(fd, 1);
	return rc;
}
