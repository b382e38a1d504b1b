#include "played.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "format/message/peer_replica.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
	STEPS = 2,
	PORT = 27480,
	PATIENT_MS = 30000 /* peer-timeout: at 1 s the nodes' questions would take all of their processor */
};

const struct step_id played_newest = {.step = 200, .epoch = PLAYED_EPOCH};
static const struct step_id older = {.step = 100, .epoch = PLAYED_EPOCH};
unsigned played_nodes = 2048;
const char *played_key;

_Noreturn void played_die(const char *what, const char *why)
{
	fprintf(stderr, "bench_takeover_net: %s: %s\n", what, why);
	exit(2);
}

/* ---- all of them, on one machine ------------------------------------------------------------------------------------ */

/* 127.1.0.0 and up. The coordinator is node 0. */
static in_addr_t address_of(unsigned node)
{
	return htonl((127u << 24 | 1u << 16) + node);
}

static void put_line(struct wbuf *text, unsigned node)
{
	struct in_addr at = {address_of(node)};
	char line[64], host[INET_ADDRSTRLEN];
	inet_ntop(AF_INET, &at, host, sizeof(host));
	int len = snprintf(line, sizeof(line), "n%u %s:%d\n", node, host, PORT);
	wbuf_put(text, line, (size_t)len);
}

/* The coordinator and those nodes. Open: nodes do not compare what they know of others. */
struct roster *played_roster(unsigned first, unsigned n)
{
	AUTO_WBUF struct wbuf text = {0};
	struct roster *roster = NULL;
	struct err err = {{0}};
	put_line(&text, 0);
	for (unsigned i = 0; i < n; i++)
		put_line(&text, first + i);
	if (wbuf_finish(&text) || roster_parse("roster", (const char *)text.data, text.len, &roster, &err))
		played_die("the roster", err.text);
	roster->open = true;
	return roster;
}

/* The net is told that the node is there, or that it has gone. */
void played_set_there(struct net *net, struct roster *roster, unsigned node, bool there)
{
	struct err err = {{0}};
	roster->nodes[node].port = there ? PORT : 0;
	if (net_member(net, node, &err))
		played_die("a node", err.text);
}

/* A node's door takes few strangers of one address, and each node has one of its own. Over loopback all would have the same. */
static _Atomic unsigned calls;

int __real_connect(int fd, const struct sockaddr *to, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len)
{
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = address_of(calls++ % played_nodes)};
	int one = 1;
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) < 0)
		return -1;
	return __real_connect(fd, to, len);
}

struct net *played_net(const struct roster *roster, unsigned self, const struct net_events *events)
{
	struct net *net = NULL;
	struct err err = {{0}};
	struct net_config config = {.roster = roster,
				    .self = self,
				    .copies = NET_COPIES_SEALED,
				    .credentials.key = played_key,
				    .peer_timeout_ns = PATIENT_MS * CLOCK_NS_PER_MS};
	if (net_new(&config, events, &net, &err))
		played_die("a net", err.text);
	return net;
}

void played_keep_apart(bool nodes)
{
	cpu_set_t all, own;
	int seen = 0;
	CPU_ZERO(&own);
	if (sched_getaffinity(0, sizeof(all), &all))
		return;
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && (seen++ >= CPU_COUNT(&all) / 2) == nodes)
			CPU_SET(cpu, &own);
	if (CPU_COUNT(&own))
		(void)sched_setaffinity(0, sizeof(own), &own);
}

/* ---- the other nodes ------------------------------------------------------------------------------------------------ */

/* In its net the coordinator is node 0, too, and the node itself is node 1. */
struct played {
	unsigned node;
	struct roster *roster;
	struct net *net;
	struct wbuf joins, holds;
};

static unsigned nsessions; /* of all of them */

void played_join(struct peer_report *r, unsigned node)
{
	*r = (struct peer_report){.type = PEER_NODE_JOIN,
				  .job = "main",
				  .epoch = PLAYED_EPOCH,
				  .node_join = {.world = played_nodes * PLAYED_RANKS,
						.nranks = PLAYED_RANKS,
						.known = PLAYED_EPOCH,
						.replicated = played_newest,
						.goes_on = true,
						.in = PLAYED_EPOCH,
						.ncopied = STEPS,
						.copied = {{played_newest.step, true}, {older.step, true}}}};
	for (uint32_t i = 0; i < PLAYED_RANKS; i++)
		r->node_join.ranks[i] = node * PLAYED_RANKS + i;
}

/* Copies of the ranks of the node before it. */
static void holdings_message(struct wbuf *out, unsigned node)
{
	AUTO_WBUF struct wbuf items = {0};
	struct peer_holdings m = {.head = {.job = "main", .epoch = PLAYED_EPOCH, .token = 1}};
	uint32_t before = (node + played_nodes - 1) % played_nodes;
	for (uint32_t i = 0; i < PLAYED_RANKS * STEPS; i++, m.n++)
		peer_holding_put(&(struct peer_holding){.rank = before * PLAYED_RANKS + i / STEPS,
							.world = played_nodes * PLAYED_RANKS,
							.owner = before,
							.id = i % STEPS ? older : played_newest},
				 &items);
	m.items = items.data;
	if (items.failed || peer_holdings_encode(&m, out))
		played_die("what a node holds", "it cannot be encoded");
}

static void prepare(struct played *p)
{
	struct peer_report r;
	played_join(&r, p->node);
	peer_term_put(&p->joins, PLAYED_TERM);
	if (peer_report_encode(&r, &p->joins))
		played_die("what a node says as it joins", "it cannot be encoded");
	holdings_message(&p->holds, p->node);
}

static void say(struct played *p, uint16_t type, const struct wbuf *body)
{
	int rc = net_send(p->net, 0, type, body);
	if (rc && rc != -ENOTCONN)
		played_die("a message", err_name(rc));
}

static void up_as_node(void *arg, unsigned node)
{
	struct played *p = arg;
	(void)node;
	nsessions++;
	say(p, PEER_NODE_JOIN, &p->joins);
}

static void down_as_node(void *arg, unsigned node, int rc)
{
	(void)arg, (void)node, (void)rc;
	nsessions--;
}

static void hear_as_node(void *arg, unsigned node, uint16_t type, const void *body, size_t len)
{
	struct played *p = arg;
	(void)node, (void)body, (void)len;
	if (type == PEER_SURVEY)
		say(p, PEER_HOLDINGS, &p->holds);
}

static void open_node(struct played *p, unsigned node, int epoll)
{
	struct net_events events = {.up = up_as_node, .down = down_as_node, .message = hear_as_node, .arg = p};
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = p};
	p->node = node;
	prepare(p);
	p->roster = played_roster(node, 1);
	p->roster->nodes[0].port = 0;
	p->net = played_net(p->roster, 1, &events);
	epoll_ctl(epoll, EPOLL_CTL_ADD, net_event_fd(p->net), &event);
}

/* They hear of an election, or of the end of a run: then the answer says that no session is left. */
static bool obey(struct played *all, int in)
{
	char word;
	if (read(in, &word, 1) != 1)
		_exit(0);
	for (unsigned node = 1; node < played_nodes; node++)
		played_set_there(all[node].net, all[node].roster, 0, word == PLAYED_ELECTED);
	return word == PLAYED_OVER;
}

static _Noreturn void play(int in, int out)
{
	struct played *all = calloc(played_nodes, sizeof(*all));
	struct epoll_event events[64], words = {.events = EPOLLIN, .data.ptr = NULL};
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	bool ends = true;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	played_keep_apart(true);
	if (!all || epoll < 0)
		played_die("the nodes", "no memory");
	epoll_ctl(epoll, EPOLL_CTL_ADD, in, &words);
	for (unsigned node = 1; node < played_nodes; node++)
		open_node(&all[node], node, epoll);
	for (;;) {
		if (ends && !nsessions)
			ends = write(out, "", 1) != 1;
		int n = epoll_wait(epoll, events, 64, -1);
		for (int i = 0; i < n; i++) {
			struct played *p = events[i].data.ptr;
			if (p)
				net_poll(p->net);
			else
				ends = obey(all, in);
		}
	}
}

pid_t played_start(int *in, int *out)
{
	int to[2], from[2];
	if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
		played_die("pipe", err_name(errno));
	pid_t pid = fork();
	if (pid < 0)
		played_die("fork", err_name(errno));
	if (!pid) {
		close(to[1]);
		play(to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	*in = from[0];
	*out = to[1];
	return pid;
}
