#include "observe/http_origin.h"

#include "base/address.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

int http_origin_asker(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
	return fd < 0 ? -errno : fd;
}

/* ---- the host --------------------------------------------------------------------------------------------------- */

static void host_of(const union address *peer, uint8_t host[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	memset(host, 0, 16);
	if (peer->any.sa_family == AF_INET) {
		memcpy(host, mapped, sizeof(mapped));
		memcpy(host + sizeof(mapped), &peer->v4.sin_addr, sizeof(peer->v4.sin_addr));
	} else if (peer->any.sa_family == AF_INET6) {
		bool whole = IN6_IS_ADDR_V4MAPPED(&peer->v6.sin6_addr) || IN6_IS_ADDR_LOOPBACK(&peer->v6.sin6_addr);
		memcpy(host, &peer->v6.sin6_addr, whole ? 16 : 8);
	}
}

/* ---- the user --------------------------------------------------------------------------------------------------- */

struct question {
	struct nlmsghdr head;
	struct inet_diag_req_v2 ask;
};

static __be16 port_of(const union address *a)
{
	return a->any.sa_family == AF_INET ? a->v4.sin_port : a->v6.sin6_port;
}

static void put_end(const union address *a, __be32 address[4], __be16 *port)
{
	*port = port_of(a);
	if (a->any.sa_family == AF_INET)
		address[0] = a->v4.sin_addr.s_addr;
	else
		memcpy(address, &a->v6.sin6_addr, sizeof(a->v6.sin6_addr));
}

/* The other end of the connection, which is a socket of this machine, or none. The kernel has answered when send returns. */
static bool ask(int asker, const union address *peer, const union address *own)
{
	struct question q = {
		.head = {.nlmsg_len = sizeof(q), .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
		.ask = {.sdiag_family = (uint8_t)peer->any.sa_family,
			.sdiag_protocol = IPPROTO_TCP,
			.idiag_states = UINT32_MAX,
			.id.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}};
	put_end(peer, q.ask.id.idiag_src, &q.ask.id.idiag_sport);
	put_end(own, q.ask.id.idiag_dst, &q.ask.id.idiag_dport);
	return send(asker, &q, sizeof(q), 0) == (ssize_t)sizeof(q);
}

/* A socket that is closed belongs to root by what the kernel says of it. */
static uint32_t hear(int asker, const union address *peer)
{
	_Alignas(struct nlmsghdr) char buf[1024];
	const struct nlmsghdr *head = (const struct nlmsghdr *)buf;
	const struct inet_diag_msg *m = NLMSG_DATA(head);
	ssize_t n = recv(asker, buf, sizeof(buf), 0);
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(*m)) || head->nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return HTTP_ORIGIN_NO_USER;
	bool alive = m->idiag_state == TCP_ESTABLISHED && m->id.idiag_sport == port_of(peer);
	return alive ? m->idiag_uid : HTTP_ORIGIN_NO_USER;
}

void http_origin_of(int asker, int sock, struct http_origin *origin)
{
	union address peer = {0}, own = {0};
	socklen_t peer_len = sizeof(peer), own_len = sizeof(own);
	*origin = (struct http_origin){.user = HTTP_ORIGIN_NO_USER};
	if (getpeername(sock, &peer.any, &peer_len))
		return; /* it has gone */
	host_of(&peer, origin->host);
	if (asker < 0)
		return;
	if (!getsockname(sock, &own.any, &own_len) && ask(asker, &peer, &own))
		origin->user = hear(asker, &peer);
	if (origin->user != HTTP_ORIGIN_NO_USER || address_is_loopback(&peer))
		memset(origin->host, 0, sizeof(origin->host)); /* a user has many addresses: all of 127.0.0.0/8 */
}

bool http_origin_same(const struct http_origin *a, const struct http_origin *b)
{
	return a->user == b->user && !memcmp(a->host, b->host, sizeof(a->host));
}
