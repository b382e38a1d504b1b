/* A synchronous job is simulated: in each step every rank computes for a time of its own, and all are in the collective until the slowest has come. */
#include "job/straggler.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define S 1e9

struct world {
	uint32_t n;
	double compute_s; /* the median of what a rank computes in a step */
	double shared_s;  /* that a collective takes when all are there */
	double sigma;     /* of the logarithm of the noise */
	double memory;    /* how much of the noise of a step goes on in the next one, 0 to 1 */
	double factor[WIRE_LOCAL_MAX];
	uint32_t mute; /* ranks from the last one on that keep no flight record */
	/* what comes out */
	double noise[WIRE_LOCAL_MAX];
	struct straggler_sample is[WIRE_LOCAL_MAX];
	double now_ns;
};

static struct stragglers found;
static uint64_t seed;

static double uniform(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return ((double)(seed >> 11) + 0.5) / (double)(1ull << 53);
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
	memset(&found, 0, sizeof(found));
	w->now_ns = 1000 * S;
	for (uint32_t r = 0; r < w->n; r++)
		w->factor[r] = w->factor[r] > 0 ? w->factor[r] : 1;
}

/* Returns what the step took. */
static double step(struct world *w)
{
	double own[WIRE_LOCAL_MAX], longest = 0;
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
	return longest + w->shared_s;
}

/* For so long; how often somebody was found who was not yet. */
static unsigned run(struct world *w, double seconds)
{
	bool was[WIRE_LOCAL_MAX] = {false};
	unsigned times = 0;
	for (double until = w->now_ns + seconds * S; w->now_ns < until;) {
		step(w);
		straggler_look(&found, 1, w->is, w->n, (uint64_t)w->now_ns);
		for (uint32_t r = 0; r < w->n; r++) {
			times += found.ranks[r].late && !was[r];
			was[r] = found.ranks[r].late;
		}
	}
	return times;
}

static double between(double low, double high)
{
	return low + (high - low) * uniform();
}

/* As on clusters: the 99th percentile of what a rank computes is two to three times the median. A thousand minutes each, of few ranks and many,
 * of short steps and long ones, of noise that lasts for a step and for some. */
Test(straggler, a_thousand_quiet_minutes_have_none)
{
	static const struct {
		uint32_t n;
		double compute_s, p99, memory;
	} rows[] = {{8, 0.3, 2, 0}, {8, 0.3, 3, 0},    {2, 0.3, 3, 0}, {2, 2, 3, 0},     {3, 1, 3, 0},
		    {16, 1, 3, 0},  {8, 0.05, 3, 0.9}, {8, 5, 3, 0},   {8, 1, 2.5, 0.5}, {64, 2, 3, 0}};
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct world w = {.n = rows[i].n,
				  .compute_s = rows[i].compute_s,
				  .shared_s = rows[i].compute_s / 5,
				  .sigma = sigma_of(rows[i].p99),
				  .memory = rows[i].memory};
		begin(&w, i + 1);
		cr_expect_eq(run(&w, 60000), 0u, "row %u", i);
		cr_expect_gt(found.rounds, 100u, "row %u", i);
	}
}

/* 1.2 to 3 times as long, of which those from 1.5 on are all found, and nobody else. */
Test(straggler, of_a_hundred_that_are_planted_it_finds_those_that_matter)
{
	unsigned mattered = 0, of_them = 0, below = 0;
	for (unsigned i = 0; i < 100; i++) {
		seed = i + 1;
		struct world w = {.n = (uint32_t)between(2, 17), .compute_s = exp(between(log(0.05), log(5)))};
		uint32_t planted = (uint32_t)between(0, w.n);
		double factor = 1.2 + 1.8 * i / 99;
		w.shared_s = w.compute_s * between(0.05, 0.4);
		w.sigma = sigma_of(between(2, 3));
		w.factor[planted] = factor;
		begin(&w, i + 1);
		for (unsigned steps = 0; steps < 600 || w.now_ns < 1300 * S;
		     steps++) { /* 600 steps and 5 minutes at least */
			step(&w);
			straggler_look(&found, 1, w.is, w.n, (uint64_t)w.now_ns);
			for (uint32_t r = 0; r < w.n; r++)
				cr_assert(!found.ranks[r].late || r == planted, "%u: rank %u, not %u", i, r, planted);
			if (found.ranks[planted].late)
				break;
		}
		mattered += factor >= 1.5;
		of_them += factor >= 1.5 && found.ranks[planted].late;
		below += factor < 1.5 && found.ranks[planted].late;
	}
	cr_expect_eq(of_them, mattered);
	cr_expect_gt(mattered, 80u);
	cr_log_info("found %u of %u from 1.5 on, %u of %u below", of_them, mattered, below, 100 - mattered);
}

/* The ranks compute for 100 ms, one for 200, and all are in the collective for 20 more: without that one a step would take 120 ms, not 220. */
Test(straggler, it_says_how_much_longer_and_what_it_costs)
{
	struct world w = {.n = 4, .compute_s = 0.1, .shared_s = 0.02, .factor = {[2] = 2}};
	begin(&w, 1);
	cr_assert_eq(run(&w, 90), 1u);
	const struct straggler_rank *r = &found.ranks[2];
	cr_assert(r->late && r->compared);
	cr_expect_float_eq(r->ratio, 2, 0.01);
	cr_expect_float_eq(r->cost, 0.1 / 0.22, 0.01);
	cr_expect_float_eq(r->own, 0.2 / 0.22, 0.01);
	cr_expect_float_eq(found.ranks[0].own, 0.1 / 0.22, 0.01);
	double lasted = w.now_ns - (double)r->since_ns;
	cr_expect_gt(lasted, 60 * S);
	cr_expect_float_eq(r->lost_ns / lasted, 0.1 / 0.22, 0.05);
	for (uint32_t i = 0; i < 4; i++)
		cr_expect(i == 2 || (!found.ranks[i].late && found.ranks[i].cost == 0), "rank %u waits", i);
}

Test(straggler, one_that_has_recovered_is_none_any_more)
{
	struct world w = {.n = 4, .compute_s = 0.1, .shared_s = 0.02, .factor = {[2] = 3}};
	begin(&w, 1);
	run(&w, 60);
	cr_assert(found.ranks[2].late);
	w.factor[2] = 1;
	run(&w, 30);
	cr_assert(found.ranks[2].late, "not at once: it might come again");
	run(&w, 90);
	cr_assert_not(found.ranks[2].late);
	cr_assert_eq(found.ranks[2].since_ns, 0u);
}

/* However long: it is not again and again. */
Test(straggler, a_long_pause_makes_none)
{
	struct world w = {.n = 4, .compute_s = 0.1, .shared_s = 0.02};
	begin(&w, 1);
	for (int i = 0; i < 20; i++) {
		cr_assert_eq(run(&w, 60), 0u);
		w.factor[1] = 600; /* a minute, once */
		step(&w);
		w.factor[1] = 1;
	}
}

Test(straggler, two_can_be_late)
{
	struct world w = {.n = 8, .compute_s = 0.1, .shared_s = 0.02, .sigma = 0.1, .factor = {[1] = 2, [6] = 1.8}};
	begin(&w, 1);
	cr_assert_eq(run(&w, 120), 2u);
	cr_assert(found.ranks[1].late && found.ranks[6].late);
}

/* That each of them takes twice as long, but nobody waits for long, is not worth a word. */
Test(straggler, what_costs_next_to_nothing_is_none)
{
	struct world w = {.n = 4, .compute_s = 0.001, .shared_s = 0.1, .factor = {[2] = 2}};
	begin(&w, 1);
	cr_assert_eq(run(&w, 120), 0u);
}

/* They wait for nobody, and nobody waits for them. */
Test(straggler, ranks_that_do_not_meet_are_not_compared)
{
	struct straggler_sample is[2] = {{0}};
	memset(&found, 0, sizeof(found));
	for (unsigned i = 1; i < 1000; i++) {
		is[0].step += 3;
		is[1].step += 1;
		straggler_look(&found, 1, is, 2, i * 1000000000ull);
		cr_assert(!found.ranks[0].late && !found.ranks[1].late);
	}
	cr_assert_gt(found.rounds, 50u);
	cr_assert_not(found.ranks[0].compared);
}

/* It would look like one that never waits. */
Test(straggler, a_rank_without_flight_records_is_not_compared)
{
	struct world w = {.n = 4, .compute_s = 0.1, .shared_s = 0.1, .mute = 1};
	begin(&w, 1);
	cr_assert_eq(run(&w, 120), 0u);
	cr_assert(found.ranks[0].compared && !found.ranks[3].compared);
	w.factor[1] = 2;
	cr_assert_eq(run(&w, 120), 1u, "the others are");
	cr_assert(found.ranks[1].late);
}

Test(straggler, another_part_in_the_job_is_not_compared)
{
	struct straggler_sample is[3] = {{0}};
	memset(&found, 0, sizeof(found));
	for (unsigned i = 1; i < 1000; i++) {
		for (unsigned r = 0; r < 3; r++) {
			is[r].step++;
			is[r].left += r == 2 ? 1 : 4; /* it does not tell of all */
			is[r].waited_ns += r == 2 ? 100000000 : 900000000;
		}
		straggler_look(&found, 1, is, 3, i * 1000000000ull);
	}
	cr_assert(found.ranks[0].compared && !found.ranks[2].compared && !found.ranks[2].late);
}

Test(straggler, an_epoch_begins_anew)
{
	struct world w = {.n = 4, .compute_s = 0.1, .shared_s = 0.02, .factor = {[2] = 3}};
	begin(&w, 1);
	run(&w, 60);
	cr_assert(found.ranks[2].late);
	step(&w);
	straggler_look(&found, 2, w.is, w.n, (uint64_t)w.now_ns);
	cr_assert_not(found.ranks[2].late);
	cr_assert_eq(found.rounds, 0u);
	straggler_forget(&found);
	cr_assert_eq(found.epoch, 0u);
}

/* It is the word of a rank. */
Test(straggler, counters_of_any_kind_do_no_harm)
{
	struct straggler_sample is[3] = {{0}};
	memset(&found, 0, sizeof(found));
	seed = 7;
	for (unsigned i = 1; i < 100000; i++) {
		for (unsigned r = 0; r < 3; r++) {
			is[r].step += uniform() < 0.9 ? 1 : (uint64_t)(uniform() * 1e19);
			is[r].left = uniform() < 0.5 ? is[r].left + 1 : (uint64_t)(uniform() * 1e19);
			is[r].waited_ns = uniform() < 0.5 ? is[r].waited_ns + 7 : UINT64_MAX - i;
		}
		straggler_look(&found, 1 + i / 1000, is, 3, i * 1000000000ull);
		for (unsigned r = 0; r < 3; r++) {
			const struct straggler_rank *f = &found.ranks[r];
			cr_assert(isfinite(f->own) && isfinite(f->ratio) && isfinite(f->cost) && isfinite(f->sum));
			cr_assert(f->own >= 0 && f->own <= 1 && f->cost >= 0 && f->cost <= 1);
		}
	}
}
