/* How long it takes over the net until a coordinator that was elected just now knows what the ranks of all nodes have, and who holds which
 * copies.
 *
 * This process is the new coordinator's node: the net of ckptd, and a coordinator that has the epoch on record and knows nothing else.
 * Another process plays the other nodes: for each of them a net of ckptd, with a thread and an address of its own, over loopback. At first
 * there is no connection:
 *
 *	both sides are told of each other ──► all nodes are called, and call: TLS handshakes, as in production ──► ANNOUNCE, NODE_JOIN
 *	── all ranks are there, in the epoch on record ──► RESUME                                                   "joined"
 *	── SURVEY, to all ──► HOLDINGS, of all: what a restore asks                                                 "surveyed"
 *
 * What is simulated: sessions begin, where in a cluster those that were parked go on. The nodes' loops answer at once. The registry tells
 * all of them at one moment. The network is loopback. No node looks after another one but the coordinator. The coordinator has one half of
 * the processors, and all nodes together have the other half, which is busy for longer: so the floor is one of the processor time of the
 * coordinator. It needs a machine with nothing else to do: nodes that do not get their turn within seconds are sent away, and call again.
 *
 *   bench_takeover_net [--nodes N] [--runs N] [--floor MS]
 *
 * Exit 1 if the median of that processor time is above the floor, 2 on a usage error. */
#include "coordinator/coordinator.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "format/message/peer_replica.h"
#include "shared/played.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	NODES_MAX = 3000, /* each has six descriptors */
	RUNS_MAX = 99,
	LIMIT_MS = 300 * 1000 /* something does not work */
};

static char folder[] = "/tmp/ckpt_bench.XXXXXX", key_path[64];

/* ---- the coordinator ------------------------------------------------------------------------------------------------ */

static struct {
	struct roster *roster;
	struct net *net;
	struct coord *coord;
	unsigned up, resumed, surveyed, lost;
	int in, out; /* from and to the other nodes */
} self;

static void take_report(unsigned node, uint16_t type, const void *body, size_t len)
{
	struct peer_report r;
	struct err err = {{0}};
	uint64_t term;
	if (!peer_term_take(&body, &len, &term) || peer_report_decode(type, body, len, &r, &err))
		played_die("a report", err.text);
	coord_input(self.coord, (struct coord_from){.node = node, .epoch = r.epoch}, &r);
}

static void take_holdings(const void *body, size_t len)
{
	struct peer_holdings m;
	struct err err = {{0}};
	uint64_t newer = 0;
	if (peer_holdings_decode(body, len, &m, &err))
		played_die("holdings", err.text);
	for (uint32_t i = 0; i < m.n; i++)
		newer += !step_compare(peer_holding_at(&m, i).id, played_newest);
	self.surveyed += newer == PLAYED_RANKS;
}

static void hear_as_coordinator(void *arg, unsigned node, uint16_t type, const void *body, size_t len)
{
	(void)arg;
	if (type == PEER_HOLDINGS)
		take_holdings(body, len);
	else if (self.coord)
		take_report(node, type, body, len);
}

static void tell(unsigned node, const struct peer_order *order)
{
	AUTO_WBUF struct wbuf text = {0};
	struct peer_order named = *order;
	snprintf(named.job, sizeof(named.job), "main");
	peer_term_put(&text, PLAYED_TERM);
	int rc = peer_order_encode(&named, &text);
	if (!rc)
		rc = net_send(self.net, node, named.type, &text);
	if (rc)
		played_die("an order", err_name(rc));
}

static void on_up(void *arg, unsigned node)
{
	(void)arg;
	self.up++;
	if (self.coord)
		tell(node, &(struct peer_order){.type = PEER_ANNOUNCE});
}

static void on_down(void *arg, unsigned node, int rc)
{
	(void)arg, (void)node, (void)rc;
	self.up--;
	self.lost += self.coord != NULL;
}

static void emit(void *arg, uint32_t node, const struct peer_order *order)
{
	(void)arg;
	self.resumed += order->type == PEER_RESUME;
	if (node)
		tell(node, order);
}

static void persist(void *arg, uint32_t epoch, const char *reason)
{
	(void)arg;
	fprintf(stderr, "epoch %u: %s\n", epoch, reason);
	played_die("the coordinator", "the epoch on record does not go on");
}

static void turn(void)
{
	struct pollfd fd = {.fd = net_event_fd(self.net), .events = POLLIN};
	if (waitpid(-1, NULL, WNOHANG) > 0)
		played_die("the nodes", "some of them have ended");
	poll(&fd, 1, 10);
	net_poll(self.net);
}

/* No session is left at either end. */
static void settle(void)
{
	struct pollfd fd = {.fd = self.in, .events = POLLIN};
	char byte;
	while (self.up)
		turn();
	if (poll(&fd, 1, LIMIT_MS) != 1 || read(self.in, &byte, 1) != 1)
		played_die("the nodes", "they do not come to an end");
}

static void tell_all_of_each_other(bool elected)
{
	char word = elected ? PLAYED_ELECTED : PLAYED_OVER;
	if (write(self.out, &word, 1) != 1)
		played_die("the nodes", err_name(errno));
	for (unsigned node = 1; node < played_nodes; node++)
		played_set_there(self.net, self.roster, node, elected);
}

static void wait_until(const unsigned *count, unsigned many)
{
	uint64_t limit = clock_deadline(LIMIT_MS * CLOCK_NS_PER_MS);
	while (*count < many) {
		if (clock_now() > limit)
			played_die("a run", "some nodes have said nothing");
		turn();
	}
}

static double processor_ms(void)
{
	struct rusage used;
	getrusage(RUSAGE_SELF, &used);
	return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 +
	       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e3;
}

struct figures {
	double joined_ms, surveyed_ms, processor_ms;
};

static void join_ourselves(void)
{
	struct peer_report r;
	played_join(&r, 0);
	coord_input(self.coord, (struct coord_from){.node = 0, .epoch = PLAYED_EPOCH}, &r);
}

static void survey(void)
{
	AUTO_WBUF struct wbuf ask = {0};
	struct peer_head head = {.job = "main", .epoch = PLAYED_EPOCH, .token = 1};
	if (peer_head_encode(&head, &ask))
		played_die("a survey", "no memory");
	for (unsigned node = 1; node < played_nodes; node++)
		if (net_send(self.net, node, PEER_SURVEY, &ask))
			played_die("a survey", "a node is lost");
}

static double ms_since(uint64_t begun)
{
	return (double)(clock_now() - begun) / CLOCK_NS_PER_MS;
}

static struct figures take_over(void)
{
	struct figures f;
	struct coord_orders orders = {.emit = emit, .persist = persist};
	settle();
	double before = processor_ms();
	uint64_t begun = clock_now();
	self.resumed = self.surveyed = self.lost = 0;
	if (coord_new("main", played_nodes * PLAYED_RANKS, played_nodes, PLAYED_EPOCH, &orders, &self.coord))
		played_die("the coordinator", "no memory");
	coord_resume(self.coord);
	tell_all_of_each_other(true);
	join_ourselves();
	wait_until(&self.resumed, played_nodes);
	f.joined_ms = ms_since(begun);
	survey();
	wait_until(&self.surveyed, played_nodes - 1);
	f.surveyed_ms = ms_since(begun);
	f.processor_ms = processor_ms() - before;
	printf("joined after %.0f ms, surveyed after %.0f ms, %.0f ms of a processor, %u sessions were lost\n",
	       f.joined_ms, f.surveyed_ms, f.processor_ms, self.lost);
	fflush(stdout);
	coord_free(self.coord);
	self.coord = NULL;
	tell_all_of_each_other(false);
	return f;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double tell_median(const char *what, double *values, int n)
{
	qsort(values, (size_t)n, sizeof(*values), by_value);
	printf("%s %.0f (%.0f .. %.0f) ms", what, values[n / 2], values[0], values[n - 1]);
	return values[n / 2];
}

static bool measure(int runs, double floor)
{
	double joined[RUNS_MAX], surveyed[RUNS_MAX], processor[RUNS_MAX];
	static const struct net_events events = {.up = on_up, .down = on_down, .message = hear_as_coordinator};
	self.roster = played_roster(1, played_nodes - 1);
	for (unsigned node = 1; node < played_nodes; node++)
		self.roster->nodes[node].port = 0;
	self.net = played_net(self.roster, 0, &events);
	for (int i = 0; i < runs; i++) {
		struct figures f = take_over();
		joined[i] = f.joined_ms;
		surveyed[i] = f.surveyed_ms;
		processor[i] = f.processor_ms;
	}
	printf("%u nodes:", played_nodes);
	tell_median(" joined", joined, runs);
	tell_median(", surveyed", surveyed, runs);
	double used = tell_median(", of a processor", processor, runs);
	printf("\n");
	return used <= floor;
}

static void write_key(void)
{
	static const char key[] = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n";
	if (!mkdtemp(folder))
		played_die(folder, err_name(errno));
	snprintf(key_path, sizeof(key_path), "%s/key", folder);
	played_key = key_path;
	AUTO_CLOSE int fd = open(played_key, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, key, sizeof(key) - 1) != (ssize_t)sizeof(key) - 1)
		played_die(played_key, err_name(errno));
}

static void raise_limit(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {{"nodes", required_argument, NULL, 'o'},
					      {"runs", required_argument, NULL, 'n'},
					      {"floor", required_argument, NULL, 'l'},
					      {0}};
	int runs = 5;
	double floor = 1000;
	for (int opt; (opt = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
		if (opt == 'o')
			played_nodes = (unsigned)strtoul(optarg, NULL, 10);
		else if (opt == 'n')
			runs = (int)strtol(optarg, NULL, 10);
		else if (opt == 'l')
			floor = strtod(optarg, NULL);
		else
			return 2;
	}
	if (played_nodes < 2 || played_nodes > NODES_MAX || runs < 1 || runs > RUNS_MAX)
		played_die("nodes or runs", "they are out of bounds");
	log_init("bench");
	log_set_level(LOG_ERROR);
	raise_limit();
	write_key();
	pid_t pid = played_start(&self.in, &self.out);
	played_keep_apart(false);
	bool ok = measure(runs, floor);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	unlink(played_key);
	rmdir(folder);
	return !ok;
}
