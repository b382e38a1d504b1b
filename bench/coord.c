/* What one commit costs the coordinator of a job on many nodes: processor time from the first report to the last order, with the
 * manifest, and how it grows with the number of ranks.
 *
 * Every node has RANKS ranks and reports copied, what its ranks hold of RANKS sets of replicas, captured, prepared and read back; one writes the manifest. Reports and orders are
 * calls: what a network would add is not measured. Sizes double from --from to --ranks. Exit 1 when the largest takes longer than the
 * floor, or more per rank than GROWTH times what the smallest does, 2 on a usage error.
 *
 *   bench_coord [--ranks N] [--from N] [--runs N] [--floor MS] [--growth FACTOR] */
#include "coordinator/coordinator_private.h"

#include "base/log.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RANKS = 8, RUNS_MAX = 99 };

struct options {
	uint32_t ranks, from;
	int runs;
	double floor, growth;
};

/* The nodes, as far as they answer. */
struct cluster {
	struct coord *coord;
	struct coord_orders orders;
	uint64_t told, sealed;
};

static void persist(void *arg, uint32_t epoch, const char *reason)
{
	(void)arg;
	(void)epoch;
	(void)reason;
}

static void emit(void *arg, uint32_t node, const struct peer_order *order)
{
	struct cluster *cluster = arg;
	(void)node;
	cluster->told += order->type != PEER_ADOPT;
}

static void make(void *arg, struct step_id id)
{
	struct cluster *cluster = arg;
	coord_made(cluster->coord, id, false);
}

static void seal(void *arg, struct step_id id, const struct wbuf *manifest)
{
	struct cluster *cluster = arg;
	cluster->sealed = manifest->len;
	coord_sealed(cluster->coord, id);
}

static void die(const char *what)
{
	fprintf(stderr, "bench_coord: %s\n", what);
	exit(2);
}

static void join(struct coord *c, uint32_t node)
{
	struct peer_node_ready m = {.n = RANKS};
	for (uint32_t i = 0; i < RANKS; i++)
		m.ranks[i] = node * RANKS + i;
	coord_joining(c, (struct coord_from){node, 1}, &m);
}

static void prepare(struct coord *c, uint32_t node, struct step_id id)
{
	struct peer_part part = {
		.node = {.size = 1 << 20}, .bytes = 1ull << 36, .stored = 1ull << 36, .files = 2 * RANKS};
	snprintf(part.node.name, sizeof(part.node.name), "node%05u", node * 40503u & 0xffffu);
	name_node(part.node.name, part.node.file);
	coord_prepared(c, (struct coord_from){node, 1}, id, &part);
}

static void commit(struct coord *c, uint32_t nnodes, struct step_id id)
{
	for (uint32_t n = 0; n < nnodes; n++)
		coord_copied(c, (struct coord_from){n, 1}, id);
	for (uint32_t n = 0; n < nnodes; n++) {
		struct peer_replica_digests replica_digests = {.id = id, .n = RANKS};
		for (uint32_t i = 0; i < RANKS; i++) /* a shard each, held by one rank of every node */
			replica_digests.of[i] = (struct peer_replica_digest){i + 1, id.step * 31 + i, 300};
		coord_replica_digests(c, (struct coord_from){n, 1}, &replica_digests);
		coord_reached(c, (struct coord_from){n, 1}, id, LEVEL_CAPTURED);
	}
	coord_ready(c, (struct coord_from){0, 1}, id);
	for (uint32_t n = 0; n < nnodes; n++)
		coord_reached(c, (struct coord_from){n, 1}, id, LEVEL_REPLICATED);
	for (uint32_t n = 0; n < nnodes; n++)
		prepare(c, n, id);
	for (uint32_t n = 0; n < nnodes; n++)
		coord_reached(c, (struct coord_from){n, 1}, id, LEVEL_VERIFIED);
	for (uint32_t n = 0; n < nnodes; n++)
		coord_forgot(c, n, id);
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

/* Median; the spread is printed. */
static double measure(uint32_t world, int runs)
{
	uint32_t nnodes = world / RANKS;
	double ms[RUNS_MAX];
	struct cluster cluster = {0};
	cluster.orders =
		(struct coord_orders){.arg = &cluster, .emit = emit, .persist = persist, .make = make, .seal = seal};
	if (coord_new("main", world, nnodes, 1, &cluster.orders, &cluster.coord))
		die("no memory");
	for (uint32_t n = 0; n < nnodes; n++)
		coord_node_join(cluster.coord, (struct coord_from){.node = n}, RANKS, 0);
	for (uint32_t n = 0; n < nnodes; n++)
		coord_shares(cluster.coord, n, &(struct shares){.n = 1, .of[0] = {1, 1}});
	for (uint32_t n = 0; n < nnodes; n++)
		join(cluster.coord, n);
	for (int i = 0; i < runs; i++) {
		uint64_t before = cluster.told;
		double start = cpu_ms();
		commit(cluster.coord, nnodes, (struct step_id){(uint64_t)i + 1, 1});
		ms[i] = cpu_ms() - start;
		/* captured, to copy, replicated, to write, durable, verified */
		if (cluster.told - before != 6ull * nnodes)
			die("a level, or that it is to copy or to write, was not told to every node");
	}
	coord_free(cluster.coord);
	qsort(ms, (size_t)runs, sizeof(*ms), by_value);
	printf("%8u %8u %12.3f %12.3f %12.3f %12.3f %12lu\n", world, nnodes, ms[runs / 2], ms[0], ms[runs - 1],
	       ms[runs / 2] * 1e3 / world, (unsigned long)cluster.sealed);
	return ms[runs / 2];
}

static struct options read_options(int argc, char **argv)
{
	static const struct option longs[] = {
		{"ranks", required_argument, NULL, 'r'},  {"from", required_argument, NULL, 'f'},
		{"runs", required_argument, NULL, 'n'},   {"floor", required_argument, NULL, 'l'},
		{"growth", required_argument, NULL, 'g'}, {0}};
	struct options o = {.ranks = 16384, .from = 1024, .runs = 9, .floor = 10, .growth = 2};
	for (int opt; (opt = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
		switch (opt) {
		case 'r':
			o.ranks = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case 'f':
			o.from = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case 'n':
			o.runs = (int)strtol(optarg, NULL, 10);
			break;
		case 'l':
			o.floor = strtod(optarg, NULL);
			break;
		case 'g':
			o.growth = strtod(optarg, NULL);
			break;
		default:
			exit(2);
		}
	}
	if (o.from < RANKS || o.from > o.ranks || o.ranks > RANK_MAX || o.runs < 1 || o.runs > RUNS_MAX)
		die("ranks, from or runs are out of bounds");
	return o;
}

int main(int argc, char **argv)
{
	struct options o = read_options(argc, argv);
	double first = 0, last = 0;
	uint32_t ranks = o.from, largest = o.from;
	log_init("bench");
	log_set_level(LOG_ERROR);
	printf("%8s %8s %12s %12s %12s %12s %12s\n", "ranks", "nodes", "ms", "min", "max", "us/rank", "manifest");
	for (; ranks <= o.ranks; ranks *= 2) {
		last = measure(ranks, o.runs) / ranks;
		first = first ? first : last;
		largest = ranks;
	}
	printf("one commit of %u ranks: %.1f ms, %.2f times as much per rank as with %u\n", largest, last * largest,
	       last / first, o.from);
	return last * largest > o.floor || last / first > o.growth;
}
