/* Nodes that have nothing to say to each other, few of them and as many as the simulator has: each keeps a connection with its two neighbours alone, and
 * sends no more than with few. When one dies, all others lose it, in time, and nobody else; and a node that is only cut off from a neighbour is lost to that
 * one alone.
 *
 * bench_sparse (a target of its own) is this program with room for 2,048 nodes: `bench_sparse N...` prints what each of N nodes sends, and ends. */
#include "base/bytes.h"
#include "base/clock.h"
#include "cluster/link/neighbours.h"
#include "cluster/link/parking.h"
#include "net_sim.h"
#include "rng.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { FEW = 8, SEEDS = 2, STEP_MS = 10, TIMEOUT_MS = 1000, IDLE_MS = 500, MEET_MS = 5000, CHATTER_MS = 10000 };
#define ALIKE 1.05

/* What is not told is found when it is called: twice the limit, after the neighbours have waited for it. */
enum { LOST_MS = TIMEOUT_MS + 2 * PARKING_CALL_MS + 500 };

static struct {
	unsigned n;
	struct net *nets[NET_SIM_NODES];
	bool up[NET_SIM_NODES][NET_SIM_NODES];
} all;

struct self {
	unsigned node;
};

static struct self selves[NET_SIM_NODES];

static void up(void *arg, unsigned node)
{
	all.up[((const struct self *)arg)->node][node] = true;
}

static void down(void *arg, unsigned node, int rc)
{
	(void)rc;
	all.up[((const struct self *)arg)->node][node] = false;
}

static void message(void *arg, unsigned node, uint16_t type, const void *body, size_t len)
{
	(void)arg, (void)node, (void)type, (void)body, (void)len;
	SIM_CHECK(false, "nobody has said anything");
}

static void pass(unsigned ms)
{
	for (unsigned i = 0; i < ms / STEP_MS; i++) {
		clock_advance(STEP_MS * CLOCK_NS_PER_MS);
		for (unsigned node = 0; node < all.n; node++)
			if (all.nets[node])
				net_poll(all.nets[node]);
	}
}

static void begin(unsigned n, uint64_t seed)
{
	struct err err;
	world_reset(seed);
	net_sim_park(IDLE_MS * CLOCK_NS_PER_MS, false);
	net_sim_faults(&(struct net_faults){.delay_ns = CLOCK_NS_PER_MS});
	memset(&all, 0, sizeof(all));
	all.n = n;
	for (unsigned node = 0; node < n; node++) {
		selves[node].node = node;
		struct net_config config = {.self = node, .peer_timeout_ns = TIMEOUT_MS * CLOCK_NS_PER_MS};
		struct net_events events = {.up = up, .down = down, .message = message, .arg = &selves[node]};
		SIM_CHECK(!net_new(&config, &events, &all.nets[node], &err), "%s", err.text);
	}
	pass(MEET_MS);
}

static void end(void)
{
	for (unsigned node = 0; node < all.n; node++)
		net_free(all.nets[node]);
	world_end();
}

/* The most that one has. */
static unsigned connections(void)
{
	unsigned most = 0;
	for (unsigned a = 0; a < all.n; a++) {
		unsigned open = 0;
		for (unsigned b = 0; b < all.n && all.nets[a]; b++)
			open += net_is_open(all.nets[a], b);
		most = open > most ? open : most;
	}
	return most;
}

static bool is_of(unsigned node, unsigned a, unsigned b)
{
	return a == node || b == node;
}

/* Pairs of which one does not hold the other for there, but for those of these two. */
static unsigned parted(unsigned one, unsigned other)
{
	unsigned n = 0;
	for (unsigned a = 0; a < all.n; a++)
		for (unsigned b = 0; b < all.n; b++)
			n += a != b && all.nets[a] && all.nets[b] && !all.up[a][b] &&
			     !(is_of(one, a, b) && is_of(other, a, b));
	return n;
}

static unsigned who_have(unsigned node)
{
	unsigned n = 0;
	for (unsigned a = 0; a < all.n; a++)
		n += a != node && all.up[a][node];
	return n;
}

static void idle(unsigned n, uint64_t seed)
{
	begin(n, seed);
	SIM_CHECK(!parted(0, 0), "%u pairs have not met", parted(0, 0));
	SIM_CHECK(connections() == NEIGHBOURS, "of %u nodes that are idle one has %u connections", n, connections());
	unsigned lost = (unsigned)rng_below(world_rng(), n);
	net_sim_kill(lost);
	net_free(all.nets[lost]);
	all.nets[lost] = NULL;
	pass(LOST_MS + n * 2);
	SIM_CHECK(!who_have(lost), "node %u of %u is dead, and there to %u", lost, n, who_have(lost));
	SIM_CHECK(!parted(lost, lost), "%u other pairs have lost each other", parted(lost, lost));
	pass(MEET_MS);
	SIM_CHECK(connections() == NEIGHBOURS, "later one of %u nodes has %u connections", n - 1, connections());
	end();
}

static bool every(const void *arg, unsigned node)
{
	(void)arg, (void)node;
	return true;
}

/* One direction between neighbours: all others are told of a loss, call, and find that it is none. */
static void cut(unsigned n, uint64_t seed)
{
	unsigned next[NEIGHBOURS], node = (unsigned)(seed % n);
	begin(n, seed);
	neighbours_find(n, node, every, NULL, next);
	net_sim_cut(node, next[0], true);
	pass(3 * LOST_MS);
	SIM_CHECK(!all.up[node][next[0]] && !all.up[next[0]][node], "nodes %u and %u have not lost each other", node,
		  next[0]);
	SIM_CHECK(!parted(node, next[0]), "%u other pairs have lost each other", parted(node, next[0]));
	end();
}

/* What a node sends in a second, in the mean, when all that is to be parked is. */
static double chatter(unsigned n, uint64_t seed)
{
	begin(n, seed);
	SIM_CHECK(connections() == NEIGHBOURS, "one of %u nodes has %u connections", n, connections());
	uint64_t before = net_sim_counts()->frames;
	pass(CHATTER_MS);
	double each = (double)(net_sim_counts()->frames - before) / n / (CHATTER_MS / 1000);
	end();
	return each;
}

/* Each net has a descriptor. */
static int measure(int argc, char **argv)
{
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){NET_SIM_NODES + 64, NET_SIM_NODES + 64});
	for (int i = 1; i < argc; i++) {
		unsigned n = (unsigned)strtoul(argv[i], NULL, 10);
		if (n <= NEIGHBOURS || n > NET_SIM_NODES) {
			fprintf(stderr, "%s: a number of nodes from %d to %d is wanted\n", argv[i], NEIGHBOURS + 1,
				NET_SIM_NODES);
			return 2;
		}
		sim_context(1, 0);
		printf("%u nodes: %d connections each, %.2f messages per second each\n", n, NEIGHBOURS, chatter(n, 1));
		fflush(stdout);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return measure(argc, argv);
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		sim_context(seed, 0);
		idle(FEW, seed);
		idle(NET_SIM_NODES, seed);
		cut(FEW, seed);
		cut(NET_SIM_NODES, seed);
		double few = chatter(FEW, seed), many = chatter(NET_SIM_NODES, seed);
		SIM_CHECK(many > 0 && many <= ALIKE * few, "each of %d nodes sends %.2f messages a second, of %d %.2f",
			  NET_SIM_NODES, many, FEW, few);
	}
	printf("%d seeds: %d connections each, of %d nodes and of %d\n", SEEDS, NEIGHBOURS, FEW, NET_SIM_NODES);
	return 0;
}
