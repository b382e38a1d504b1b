/* What it costs the coordinator of a job on many nodes to learn what all of them hold, and to choose what is restored; and what a plan costs.
 *
 * Take-over: processor time from the first node that joins to the last order to restore, of a coordinator that knows nothing. Every node has RANKS
 * ranks, holds the copies of two steps of the ranks of the node before it, and has one step in its own memory. What a node says of its copies is a message,
 * as on the net; the other reports and orders are calls. What a network would add is not measured. The first node has lost its memory: its ranks' parts
 * come from the node behind it.
 * Memory: what the coordinator has allocated at most, with what it was told.
 * Plan: processor time of the assignment of all ranks to nodes, and of the next one when a node is lost and a spare is there.
 *
 * Sizes double from --from to --ranks. Exit 1 if the take-over of --nodes takes longer than the floor, or the plans or the memory of
 * the largest take more per rank than GROWTH times what those of the smallest do, 2 on a usage error. A take-over of many nodes may: its memory is larger
 * than the caches.
 *
 *   bench_takeover [--ranks N] [--from N] [--nodes N] [--runs N] [--floor MS] [--growth FACTOR] */
#include "coordinator/assignment.h"
#include "coordinator/coordinator_private.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "format/message/peer_replica.h"

#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RANKS = 8, STEPS = 2, RUNS_MAX = 99, LARGEST = 1 << 20 };

static const struct step_id newest = {.step = 200, .epoch = 3}, older = {.step = 100, .epoch = 3};

struct options {
	uint32_t ranks, from, nodes;
	int runs;
	double floor, growth;
};

struct cluster {
	struct coord *coord;
	struct coord_orders orders;
	uint32_t nnodes, fetches, holders;
	size_t base, most; /* bytes allocated before, and at most since */
	bool surveyed;
	struct wbuf *says; /* by node: what it holds, as a message */
};

struct figures {
	double takeover_ms, plan_ms, bytes;
};

static void die(const char *what)
{
	fprintf(stderr, "bench_takeover: %s\n", what);
	exit(2);
}

static double cpu_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *values, int n)
{
	qsort(values, (size_t)n, sizeof(*values), by_value);
	return values[n / 2];
}

static size_t allocated(void)
{
	struct mallinfo2 m = mallinfo2();
	return m.uordblks + m.hblkhd;
}

static void note_memory(struct cluster *cluster)
{
	size_t now = allocated();
	if (now > cluster->base && now - cluster->base > cluster->most)
		cluster->most = now - cluster->base;
}

/* ---- the nodes ----------------------------------------------------------------------------------------------------- */

static struct wbuf holdings_of(uint32_t node, uint32_t nnodes, uint32_t world)
{
	struct wbuf out = {0};
	AUTO_WBUF struct wbuf items = {0};
	struct peer_holdings m = {.head = {.epoch = 3, .token = 1}};
	uint32_t before = (node + nnodes - 1) % nnodes;
	snprintf(m.head.job, sizeof(m.head.job), "main");
	for (uint32_t i = 0; i < RANKS * STEPS; i++, m.n++)
		peer_holding_put(&(struct peer_holding){.rank = (before * RANKS + i / STEPS) % RANK_MAX,
							.world = world < RANK_MAX ? world : RANK_MAX,
							.owner = before,
							.id = i % STEPS ? older : newest},
				 &items);
	m.items = items.data;
	if (items.failed || peer_holdings_encode(&m, &out))
		die("what a node holds cannot be encoded");
	return out;
}

/* More ranks than RANK_MAX a message does not name: of a larger world its sender says which they are. */
static size_t hear_holdings(const struct wbuf *says, uint32_t node, uint32_t world, struct coord_held *found)
{
	struct peer_holdings m;
	struct err err;
	if (peer_holdings_decode(says->data, says->len, &m, &err))
		die(err.text);
	for (uint32_t i = 0; i < m.n; i++) {
		struct peer_holding h = peer_holding_at(&m, i);
		found[i] = (struct coord_held){.node = node,
					       .rank = h.owner * RANKS + h.rank % RANKS,
					       .world = world,
					       .owner = h.owner,
					       .id = h.id};
	}
	return m.n;
}

static void survey(void *arg)
{
	struct cluster *cluster = arg;
	cluster->surveyed = true; /* answered when the order to look was given to all */
}

static void answer_survey(struct cluster *cluster)
{
	AUTO_FREE struct coord_held *found = calloc((size_t)cluster->nnodes * RANKS * STEPS, sizeof(*found));
	struct coord_survey all = {.epoch = coord_view(cluster->coord).epoch, .found = found};
	if (!found)
		die("no memory");
	for (uint32_t n = 0; n < cluster->nnodes; n++)
		all.n += hear_holdings(&cluster->says[n], n, cluster->nnodes * RANKS, found + all.n);
	coord_surveyed(cluster->coord, &all);
	note_memory(cluster);
}

static void emit(void *arg, uint32_t node, const struct peer_order *order)
{
	struct cluster *cluster = arg;
	if (order->type != PEER_RESTORE_FETCH)
		return;
	cluster->fetches += !step_compare(order->bring.id, newest);
	cluster->holders += node == 0 ? order->bring.nholders : 0;
}

static void persist(void *arg, uint32_t epoch, const char *reason)
{
	(void)reason;
	coord_persisted(((struct cluster *)arg)->coord, epoch);
}

static void join(struct coord *c, uint32_t node)
{
	struct peer_node_ready m = {.n = RANKS};
	for (uint32_t i = 0; i < RANKS; i++)
		m.ranks[i] = node * RANKS + i;
	coord_joining(c, (struct coord_from){node, coord_view(c).epoch}, &m);
}

static void look(struct coord *c, uint32_t node)
{
	struct peer_restore_candidates m = {.nranks = RANKS};
	for (uint32_t i = 0; i < RANKS; i++)
		m.ranks[i] = node * RANKS + i;
	if (node)
		m.memory[m.nmemory++] = newest;
	coord_found(c, (struct coord_from){node, coord_view(c).epoch}, &m);
}

/* ---- figures ------------------------------------------------------------------------------------------------------- */

static double take_over(struct cluster *cluster, uint32_t world)
{
	struct coord *c = cluster->coord;
	double start = cpu_ms();
	for (uint32_t n = 0; n < cluster->nnodes; n++)
		coord_node_join(c, (struct coord_from){.node = n}, RANKS, 3);
	for (uint32_t n = 0; n < cluster->nnodes; n++)
		join(c, n);
	for (uint32_t n = 0; n < cluster->nnodes; n++)
		coord_restoring(c, (struct coord_from){n, coord_view(c).epoch}, STEP_NEWEST);
	if (!cluster->surveyed)
		die("the nodes were not asked what they hold");
	answer_survey(cluster);
	for (uint32_t n = 0; n < cluster->nnodes; n++)
		look(c, n);
	double ms = cpu_ms() - start;
	note_memory(cluster);
	if (cluster->fetches != world / RANKS || cluster->holders != RANKS)
		die("not every node was told to bring the newest step, or the first one not from whom");
	return ms;
}

static double measure_takeover(uint32_t world, int runs, double *bytes)
{
	double ms[RUNS_MAX];
	struct cluster cluster = {.nnodes = world / RANKS};
	cluster.says = calloc(cluster.nnodes, sizeof(*cluster.says));
	if (!cluster.says)
		die("no memory");
	for (uint32_t n = 0; n < cluster.nnodes; n++)
		cluster.says[n] = holdings_of(n, cluster.nnodes, world);
	cluster.orders = (struct coord_orders){.arg = &cluster, .emit = emit, .persist = persist, .survey = survey};
	for (int i = 0; i < runs; i++) {
		cluster.fetches = cluster.holders = 0;
		cluster.surveyed = false;
		cluster.base = allocated();
		if (coord_new("main", world, cluster.nnodes, 4, &cluster.orders, &cluster.coord))
			die("no memory");
		ms[i] = take_over(&cluster, world);
		coord_free(cluster.coord);
	}
	for (uint32_t n = 0; n < cluster.nnodes; n++)
		wbuf_free(&cluster.says[n]);
	free(cluster.says);
	*bytes = (double)cluster.most;
	return median(ms, runs);
}

static double plan_once(uint32_t world)
{
	struct assignment a;
	uint32_t nnodes = world / RANKS + 1;
	if (assignment_init(&a, nnodes, world, world / 2))
		die("no memory");
	double start = cpu_ms();
	for (uint32_t n = 0; n < nnodes; n++)
		assignment_offer(&a, n, RANKS, n == nnodes - 1);
	bool first = !assignment_plan(&a);
	assignment_offer(&a, nnodes / 2, 0, false);
	bool second = !assignment_plan(&a);
	double ms = cpu_ms() - start;
	if (!first || !second || a.world != world || a.nodes[nnodes - 1].has != RANKS)
		die("the spare did not take the ranks of the node that was lost");
	assignment_free(&a);
	return ms;
}

static struct figures measure(uint32_t world, int runs)
{
	struct figures f;
	double ms[RUNS_MAX];
	f.takeover_ms = measure_takeover(world, runs, &f.bytes);
	for (int i = 0; i < runs; i++)
		ms[i] = plan_once(world);
	f.plan_ms = median(ms, runs);
	printf("%8u %8u %14.1f %12.1f %14.1f\n", world, world / RANKS, f.takeover_ms, f.plan_ms, f.bytes / 1048576);
	return f;
}

static struct options read_options(int argc, char **argv)
{
	static const struct option longs[] = {{"ranks", required_argument, NULL, 'r'},
					      {"from", required_argument, NULL, 'f'},
					      {"nodes", required_argument, NULL, 'o'},
					      {"runs", required_argument, NULL, 'n'},
					      {"floor", required_argument, NULL, 'l'},
					      {"growth", required_argument, NULL, 'g'},
					      {0}};
	struct options o = {.ranks = 131072, .from = 16384, .nodes = 2048, .runs = 5, .floor = 1000, .growth = 2};
	for (int opt; (opt = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
		if (opt == 'r')
			o.ranks = (uint32_t)strtoul(optarg, NULL, 10);
		else if (opt == 'f')
			o.from = (uint32_t)strtoul(optarg, NULL, 10);
		else if (opt == 'o')
			o.nodes = (uint32_t)strtoul(optarg, NULL, 10);
		else if (opt == 'n')
			o.runs = (int)strtol(optarg, NULL, 10);
		else if (opt == 'l')
			o.floor = strtod(optarg, NULL);
		else if (opt == 'g')
			o.growth = strtod(optarg, NULL);
		else
			exit(2);
	}
	if (o.from < 2 * RANKS || o.from > o.ranks || o.ranks > LARGEST || o.runs < 1 || o.runs > RUNS_MAX)
		die("ranks, from or runs are out of bounds");
	return o;
}

int main(int argc, char **argv)
{
	struct options o = read_options(argc, argv);
	struct figures first = {0}, last = {0};
	bool slow = false;
	uint32_t ranks = o.from, largest = o.from;
	log_init("bench");
	log_set_level(LOG_ERROR);
	printf("%8s %8s %14s %12s %14s\n", "ranks", "nodes", "take-over ms", "plans ms", "memory MiB");
	for (; ranks <= o.ranks; ranks *= 2) {
		last = measure(ranks, o.runs);
		first = ranks == o.from ? last : first;
		slow |= ranks / RANKS == o.nodes && last.takeover_ms > o.floor;
		largest = ranks;
	}
	double more = (double)largest / o.from;
	double takeover = last.takeover_ms / first.takeover_ms / more, plan = last.plan_ms / first.plan_ms / more,
	       bytes = last.bytes / first.bytes / more;
	printf("%u ranks, per rank, times %u: take-over %.2f, plans %.2f, memory %.2f\n", largest, o.from, takeover,
	       plan, bytes);
	return slow || plan > o.growth || bytes > o.growth;
}
