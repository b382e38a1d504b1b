/* Datagrams on each way between nodes show which ways are broken. */
#include "network/net.h"

#include "base/address.h"
#include "base/clock.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PROBE_NS (5 * CLOCK_NS_PER_S)
#define ROUND_MS 20

/* So many rounds nothing must arrive on a way that is broken. */
enum { ROUNDS_LEAST = 10 };

struct probe {
	const struct campaign_net *net;
	int fd[CAMPAIGN_NODES_MAX]; /* a socket of each node */
	union address at[CAMPAIGN_NODES_MAX];
	uint32_t arrived[CAMPAIGN_NODES_MAX]; /* of each node, in bits: at which others */
};

static int open_at(struct probe *p, uint32_t node, struct err *err)
{
	char host[32], text[ADDRESS_MAX];
	p->fd[node] = -1;
	int rc = campaign_net_enter(p->net, node, err);
	if (rc)
		return rc;
	p->fd[node] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	campaign_net_leave(p->net);
	snprintf(text, sizeof(text), "%s:0", campaign_net_address(node, host, sizeof(host)));
	socklen_t size = sizeof(p->at[node]);
	if (p->fd[node] >= 0 && !address_parse(text, &p->at[node]) &&
	    !bind(p->fd[node], &p->at[node].any, address_size(&p->at[node])) &&
	    !getsockname(p->fd[node], &p->at[node].any, &size))
		return 0;
	return err_set(err, -EIO, "no probe at %s: %s", text, err_name(errno));
}

/* What cannot even be sent does not arrive. */
static void send_all(const struct probe *p)
{
	for (uint32_t from = 0; from < p->net->nodes; from++)
		for (uint32_t to = 0; to < p->net->nodes; to++)
			if (from != to)
				sendto(p->fd[from], &from, sizeof(from), 0, &p->at[to].any, address_size(&p->at[to]));
}

static void take_all(struct probe *p)
{
	struct pollfd fds[CAMPAIGN_NODES_MAX];
	uint64_t until = clock_deadline(ROUND_MS * CLOCK_NS_PER_MS);
	for (uint32_t k = 0; k < p->net->nodes; k++)
		fds[k] = (struct pollfd){.fd = p->fd[k], .events = POLLIN};
	while (poll(fds, p->net->nodes, clock_ms_until(until)) > 0)
		for (uint32_t k = 0, from; k < p->net->nodes; k++)
			while (recv(p->fd[k], &from, sizeof(from), 0) == sizeof(from))
				if (from < p->net->nodes)
					p->arrived[from] |= UINT32_C(1) << k;
}

/* The first way that is not as it is to be; false: all are. */
static bool find_wrong(const struct probe *p, bool lost, uint32_t *from, uint32_t *to)
{
	for (*from = 0; *from < p->net->nodes; ++*from)
		for (*to = 0; *to < p->net->nodes; ++*to) {
			bool is_lost = campaign_ways_is_lost(&p->net->broken, *from, *to);
			bool arrived = p->arrived[*from] >> *to & 1;
			if (*from != *to && is_lost == lost && arrived == is_lost)
				return true;
		}
	return false;
}

static bool is_whole(const struct campaign_net *net)
{
	for (uint32_t k = 0; k < net->nodes; k++)
		if (net->broken.lost[k])
			return false;
	return true;
}

static int look(struct probe *p, struct err *err)
{
	uint64_t deadline = clock_deadline(PROBE_NS);
	int least = is_whole(p->net) ? 1 : ROUNDS_LEAST;
	uint32_t from, to;
	for (int round = 1;; round++) {
		send_all(p);
		take_all(p);
		if (find_wrong(p, true, &from, &to))
			return err_set(err, -EAGAIN, "what node-%u sends to node-%u arrives, although it is cut", from,
				       to);
		bool waits = find_wrong(p, false, &from, &to);
		if (!waits && round >= least)
			return 0;
		if (waits && clock_now() >= deadline)
			return err_set(err, -EAGAIN, "what node-%u sends to node-%u does not arrive", from, to);
	}
}

int campaign_net_probe(const struct campaign_net *net, struct err *err)
{
	struct probe p = {.net = net};
	int rc = 0;
	uint32_t n = 0;
	for (; !rc && n < net->nodes; n++)
		rc = open_at(&p, n, err);
	if (!rc)
		rc = look(&p, err);
	while (n-- > 0)
		if (p.fd[n] >= 0)
			close(p.fd[n]);
	return rc;
}
