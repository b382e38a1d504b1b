/* Several nodes with clocks of their own, and the ranks of a synchronous job: all are in the collective until the slowest has come. Each node
 * reports its ranks every 5 s, at instants of its own. */
#include "coordinator/watch/straggling.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#define S 1e9

enum { MOST = 64, NODES = 8, SEEDS = 40 };

struct world {
	uint32_t nnodes, per; /* ranks of each node but the last */
	uint32_t last;        /* and of the last one; 0: as many */
	double compute_s, shared_s, sigma, memory;
	double factor[MOST]; /* 0: 1 */
	uint32_t mute;       /* ranks from the last one on that keep no flight record */
	/* what comes out */
	uint32_t n, owners[MOST];
	double noise[MOST], now_ns, offset_ns[NODES], report_ns[NODES];
	struct straggling_sample is[MOST];
};

static struct straggling found;
static uint64_t seed;

static double uniform(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return ((double)(seed >> 11) + 0.5) / (double)(1ull << 53);
}

static double between(double low, double high)
{
	return low + (high - low) * uniform();
}

static double normal(void)
{
	return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

/* By which the 99th percentile is so many times the median. */
static double sigma_of(double p99)
{
	return log(p99) / 2.3263;
}

static void begin(struct world *w, uint64_t with)
{
	seed = with * 2654435761u + 1;
	w->n = (w->nnodes - 1) * w->per + (w->last ? w->last : w->per);
	cr_assert(w->n <= MOST && w->nnodes <= NODES);
	w->now_ns = 1000 * S;
	for (uint32_t i = 0; i < w->nnodes; i++) {
		w->offset_ns[i] = between(0, 1e6) * S;
		w->report_ns[i] = w->now_ns + between(0, 5) * S;
	}
	for (uint32_t r = 0; r < w->n; r++) {
		w->owners[r] = r / w->per < w->nnodes ? r / w->per : w->nnodes - 1;
		w->factor[r] = w->factor[r] > 0 ? w->factor[r] : 1;
	}
	cr_assert_eq(straggling_begin(&found, 1, w->n, w->owners, w->nnodes), 0);
}

static void step(struct world *w)
{
	double own[MOST], longest = 0;
	for (uint32_t r = 0; r < w->n; r++) {
		w->noise[r] = w->memory * w->noise[r] + sqrt(1 - w->memory * w->memory) * normal();
		own[r] = w->compute_s * w->factor[r] * exp(w->sigma * w->noise[r]);
		longest = fmax(longest, own[r]);
	}
	for (uint32_t r = 0; r < w->n; r++) {
		bool records = r < w->n - w->mute;
		w->is[r].step++;
		w->is[r].left += records ? 3 : 0;
		w->is[r].waited_ns += records ? (uint64_t)((longest + w->shared_s - own[r]) * S) : 0;
	}
	w->now_ns += (longest + w->shared_s) * S;
}

static void report(struct world *w)
{
	for (uint32_t i = 0; i < w->nnodes; i++) {
		if (w->now_ns < w->report_ns[i])
			continue;
		w->report_ns[i] = w->now_ns + 5 * S;
		for (uint32_t r = 0; r < w->n; r++)
			if (w->owners[r] == i)
				straggling_take(&found, r, (uint64_t)(w->now_ns + w->offset_ns[i]), &w->is[r]);
		straggling_judge(&found, (uint64_t)w->now_ns);
	}
}

/* Ranks and nodes that are named. */
static unsigned named(void)
{
	unsigned n = 0;
	for (uint32_t r = 0; r < found.world; r++)
		n += found.ranks[r].is.late;
	for (uint32_t i = 0; i < found.nnodes; i++)
		n += found.nodes[i].is.late;
	return n;
}

/* For so long; in how many steps somebody was named. */
static unsigned run(struct world *w, double seconds)
{
	unsigned times = 0;
	for (double until = w->now_ns + seconds * S; w->now_ns < until;) {
		step(w);
		report(w);
		times += named() != 0;
	}
	return times;
}

/* As on clusters: the 99th percentile of what a rank computes is two to three times the median. A thousand minutes each, of few nodes and many,
 * of short steps and long ones, of noise that lasts for a step and for some. */
Test(straggling, a_thousand_quiet_minutes_have_none)
{
	static const struct {
		uint32_t nnodes, per, last;
		double compute_s, p99, memory;
	} rows[] = {{2, 1, 0, 0.3, 3, 0},    {2, 2, 0, 0.3, 3, 0},   {3, 2, 0, 1, 3, 0},   {4, 8, 0, 0.3, 2, 0},
		    {4, 8, 0, 2, 3, 0},      {8, 1, 0, 1, 3, 0},     {2, 8, 2, 1, 3, 0},   {8, 8, 0, 2, 3, 0},
		    {4, 4, 0, 0.05, 3, 0.9}, {4, 4, 1, 5, 2.5, 0.5}, {1, 2, 0, 0.3, 3, 0}, {1, 8, 0, 2, 3, 0},
		    {1, 8, 0, 0.05, 3, 0.9}, {1, 64, 0, 2, 3, 0}};
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct world w = {.nnodes = rows[i].nnodes,
				  .per = rows[i].per,
				  .last = rows[i].last,
				  .compute_s = rows[i].compute_s,
				  .shared_s = rows[i].compute_s / 5,
				  .sigma = sigma_of(rows[i].p99),
				  .memory = rows[i].memory};
		begin(&w, i + 1);
		cr_expect_eq(run(&w, 60000), 0u, "row %u", i);
		cr_expect_gt(found.rounds, 100u, "row %u", i);
		straggling_end(&found);
	}
}

/* Who is not the one that is planted, nor the node that it is. */
static void expect_nobody_else(const struct world *w, uint32_t planted, bool whole, unsigned i)
{
	for (uint32_t r = 0; r < w->n; r++)
		cr_assert(!found.ranks[r].is.late || (!whole && r == planted), "%u: rank %u, not %u%s", i, r, planted,
			  whole ? "'s node" : "");
	for (uint32_t n = 0; n < w->nnodes; n++)
		cr_assert(!found.nodes[n].is.late || (whole && n == w->owners[planted]), "%u: node %u", i, n);
}

/* Of seed `with`: it is found as what it is, and nobody else. */
static bool finds(unsigned i, uint64_t with, double factor)
{
	seed = (i + 1) * 7919u + with * 104729u;
	bool whole = i % 2, is = false;
	struct world w = {.nnodes = (uint32_t)between(whole ? 2 : 1, 9), .per = (uint32_t)between(2, 9)};
	uint32_t planted = (uint32_t)between(0, w.nnodes * w.per), node = planted / w.per;
	w.compute_s = exp(between(log(0.05), log(5)));
	w.shared_s = w.compute_s * between(0.05, 0.4);
	w.sigma = sigma_of(between(2, 3));
	for (uint32_t r = 0; r < w.nnodes * w.per; r++)
		w.factor[r] = (whole ? r / w.per == node : r == planted) ? factor : 1;
	begin(&w, seed);
	for (unsigned steps = 0; !is && (steps < 600 || w.now_ns < 1300 * S); steps++) { /* and 5 minutes at least */
		step(&w);
		report(&w);
		expect_nobody_else(&w, planted, whole, i);
		is = whole ? found.nodes[node].is.late : found.ranks[planted].is.late;
	}
	straggling_end(&found);
	return is;
}

/* In turn a rank and a node, 1.2 to 3 times as long: those from 1.5 on are all found as what they are, and nobody else. */
Test(straggling, of_a_hundred_that_are_planted_it_finds_those_that_matter)
{
	for (uint64_t with = 0; with < SEEDS; with++) {
		unsigned mattered = 0, of_them = 0;
		for (unsigned i = 0; i < 100; i++) {
			double factor = 1.2 + 1.8 * i / 99;
			bool is = finds(i, with, factor);
			mattered += factor >= 1.5;
			of_them += factor >= 1.5 && is;
		}
		cr_expect_eq(of_them, mattered, "seed %lu: %u of %u", (unsigned long)with, of_them, mattered);
		cr_expect_gt(mattered, 80u);
	}
}

/* One node has eight ranks of ten: they are what is usual by number, and yet what the others wait for. */
Test(straggling, a_node_with_most_of_the_ranks_can_be_late)
{
	struct world w = {.nnodes = 2, .per = 8, .last = 2, .compute_s = 0.1, .shared_s = 0.02};
	for (uint32_t r = 0; r < 8; r++)
		w.factor[r] = 2;
	begin(&w, 1);
	run(&w, 120);
	cr_expect(found.nodes[0].is.late && !found.nodes[1].is.late);
	cr_expect_eq(named(), 1u);
	cr_expect_float_eq(found.nodes[0].is.ratio, 2, 0.05);
	cr_expect_float_eq(found.nodes[0].is.cost, 0.1 / 0.22, 0.02);
	straggling_end(&found);
}

/* A rank that alone is late, then its node with it, then neither. */
Test(straggling, a_node_takes_the_place_of_its_rank)
{
	struct world w = {.nnodes = 3, .per = 2, .compute_s = 0.1, .shared_s = 0.02, .factor = {[2] = 2}};
	begin(&w, 1);
	run(&w, 120);
	cr_expect(found.ranks[2].is.late && named() == 1);
	w.factor[3] = 2;
	run(&w, 240);
	cr_expect(found.nodes[1].is.late && named() == 1);
	w.factor[2] = w.factor[3] = 1;
	run(&w, 240);
	cr_expect_eq(named(), 0u);
	straggling_end(&found);
}

/* Of an epoch nothing is left in the next one. */
Test(straggling, an_epoch_begins_anew)
{
	struct world w = {.nnodes = 2, .per = 2, .compute_s = 0.1, .shared_s = 0.02, .factor = {[2] = 2}};
	begin(&w, 1);
	run(&w, 120);
	cr_assert_eq(named(), 1u);
	cr_assert_eq(straggling_begin(&found, 2, w.n, w.owners, w.nnodes), 0);
	cr_expect_eq(named(), 0u);
	cr_expect_eq(found.rounds, 0u);
	straggling_end(&found);
}

/* A node that is silent ends no round. */
Test(straggling, without_a_node_nothing_is_judged)
{
	struct world w = {.nnodes = 3, .per = 2, .compute_s = 0.1, .shared_s = 0.02, .factor = {[2] = 2}};
	begin(&w, 1);
	w.report_ns[2] = 1e18;
	run(&w, 120);
	cr_expect_eq(found.rounds, 0u);
	straggling_end(&found);
}

/* Three ranks of four are late: that is more than half of their node. */
Test(straggling, a_node_is_late_when_most_of_its_ranks_are)
{
	struct world w = {
		.nnodes = 3, .per = 4, .compute_s = 0.1, .shared_s = 0.02, .factor = {[4] = 2, [5] = 2, [6] = 2}};
	begin(&w, 1);
	run(&w, 300);
	cr_expect(found.nodes[1].is.late);
	cr_expect_eq(named(), 1u);
	straggling_end(&found);
}

/* What is late there is a rank; its node would be the same. */
Test(straggling, of_nodes_with_one_rank_each_the_rank_is_named)
{
	struct world w = {.nnodes = 4, .per = 1, .compute_s = 0.1, .shared_s = 0.02, .factor = {[2] = 2}};
	begin(&w, 1);
	run(&w, 120);
	cr_expect(found.ranks[2].is.late && named() == 1);
	straggling_end(&found);
}

/* Two nodes are late, one by far: each is named; without the first the others would wait for the second. */
Test(straggling, two_nodes_can_be_late)
{
	struct world w = {.nnodes = 5,
			  .per = 2,
			  .compute_s = 0.1,
			  .shared_s = 0.02,
			  .factor = {[2] = 2, [3] = 2, [8] = 3, [9] = 3}};
	begin(&w, 1);
	run(&w, 300);
	cr_expect(found.nodes[1].is.late && found.nodes[4].is.late && named() == 2);
	cr_expect(found.nodes[1].is.cost == 0 && found.nodes[4].is.cost > 0.3);
	straggling_end(&found);
}

/* The ranks compute for 100 ms, one for 200, and all are in the collective for 20 more: without that one a step would take 120 ms, not 220. */
Test(straggling, it_says_how_much_longer_and_what_it_costs)
{
	struct world w = {.nnodes = 1, .per = 4, .compute_s = 0.1, .shared_s = 0.02, .factor = {[2] = 2}};
	begin(&w, 1);
	run(&w, 90);
	const struct straggling_one *is = &found.ranks[2].is;
	cr_assert(is->late && is->compared && named() == 1);
	cr_expect_float_eq(is->ratio, 2, 0.01);
	cr_expect_float_eq(is->cost, 0.1 / 0.22, 0.01);
	cr_expect_float_eq(is->own, 0.2 / 0.22, 0.01);
	cr_expect_float_eq(found.ranks[0].is.own, 0.1 / 0.22, 0.01);
	double lasted = w.now_ns - (double)is->since_ns;
	cr_expect_gt(lasted, 60 * S);
	cr_expect_float_eq(is->lost_ns / lasted, 0.1 / 0.22, 0.05);
	for (uint32_t i = 0; i < 4; i++)
		cr_expect(i == 2 || found.ranks[i].is.cost == 0, "rank %u waits", i);
	straggling_end(&found);
}

Test(straggling, one_that_has_recovered_is_none_any_more)
{
	struct world w = {.nnodes = 2, .per = 2, .compute_s = 0.1, .shared_s = 0.02, .factor = {[2] = 3}};
	begin(&w, 1);
	run(&w, 90);
	cr_assert(found.ranks[2].is.late);
	w.factor[2] = 1;
	run(&w, 30);
	cr_assert(found.ranks[2].is.late, "not at once: it might come again");
	run(&w, 120);
	cr_assert_eq(named(), 0u);
	cr_assert_eq(found.ranks[2].is.since_ns, 0u);
	straggling_end(&found);
}

/* However long: it is not again and again. */
Test(straggling, a_long_pause_makes_none)
{
	struct world w = {.nnodes = 2, .per = 2, .compute_s = 0.1, .shared_s = 0.02};
	begin(&w, 1);
	for (int i = 0; i < 20; i++) {
		cr_assert_eq(run(&w, 60), 0u);
		w.factor[0] = w.factor[1] = 600; /* a minute, once */
		step(&w);
		report(&w);
		w.factor[0] = w.factor[1] = 1;
	}
	straggling_end(&found);
}

/* That each of them takes twice as long, but nobody waits for long, is not worth a word. */
Test(straggling, what_costs_next_to_nothing_is_none)
{
	struct world w = {.nnodes = 2, .per = 2, .compute_s = 0.001, .shared_s = 0.1, .factor = {[2] = 2, [3] = 2}};
	begin(&w, 1);
	cr_assert_eq(run(&w, 120), 0u);
	straggling_end(&found);
}

/* It would look like one that never waits. */
Test(straggling, a_rank_without_flight_records_is_not_compared)
{
	struct world w = {.nnodes = 2, .per = 2, .compute_s = 0.1, .shared_s = 0.1, .mute = 1};
	begin(&w, 1);
	cr_assert_eq(run(&w, 120), 0u);
	cr_assert(found.ranks[0].is.compared && !found.ranks[3].is.compared);
	w.factor[1] = 2;
	run(&w, 120);
	cr_assert(found.ranks[1].is.late && named() == 1, "the others are");
	straggling_end(&found);
}

/* They wait for nobody, and nobody waits for them; or they do not tell of all collectives. */
Test(straggling, another_part_in_the_job_is_not_compared)
{
	static const uint32_t owners[] = {0, 0, 1, 1};
	struct straggling_sample is[4] = {{0}};
	cr_assert_eq(straggling_begin(&found, 1, 4, owners, 2), 0);
	for (uint64_t i = 1; i < 1000; i++) {
		for (uint32_t r = 0; r < 4; r++) {
			is[r].step++;
			is[r].left += r == 3 ? 1 : 4;
			is[r].waited_ns += r == 3 ? 100000000 : 900000000;
			straggling_take(&found, r, i * 1000000000ull, &is[r]);
		}
		straggling_judge(&found, i * 1000000000ull);
	}
	cr_assert(found.ranks[0].is.compared && !found.ranks[3].is.compared);
	cr_assert_eq(named(), 0u);
	cr_assert_gt(found.rounds, 50u);
	straggling_end(&found);
}

static bool is_sound(const struct straggling_one *f)
{
	return isfinite(f->own) && isfinite(f->ratio) && isfinite(f->cost) && isfinite(f->sum) && f->own >= 0 &&
	       f->own <= 1 && f->cost >= 0 && f->cost <= 1;
}

/* It is the word of a rank, and of a node's clock. */
Test(straggling, counters_of_any_kind_do_no_harm)
{
	static const uint32_t owners[] = {0, 0, 1};
	struct straggling_sample is[3] = {{0}};
	uint64_t node_ns[2] = {1, 1};
	seed = 7;
	for (unsigned i = 0; i < 100000; i++) {
		if (i % 1000 == 0)
			cr_assert_eq(straggling_begin(&found, 1 + i / 1000, 3, owners, 2), 0);
		for (uint32_t r = 0; r < 3; r++) {
			node_ns[owners[r]] += uniform() < 0.99 ? 3000000000ull : (uint64_t)(uniform() * 1e19);
			is[r].step += uniform() < 0.9 ? 8 : (uint64_t)(uniform() * 1e19);
			is[r].left = uniform() < 0.9 ? is[r].left + 1 : (uint64_t)(uniform() * 1e19);
			is[r].waited_ns = uniform() < 0.9 ? is[r].waited_ns + 7 : UINT64_MAX - i;
			straggling_take(&found, r, node_ns[owners[r]], &is[r]);
		}
		straggling_judge(&found, i * 1000000000ull);
		for (uint32_t r = 0; r < 3; r++)
			cr_assert(is_sound(&found.ranks[r].is) && is_sound(&found.nodes[owners[r]].is));
	}
	straggling_end(&found);
}
