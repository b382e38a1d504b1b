#include "operate/bench.h"

#include <criterion/criterion.h>
#include <math.h>

#define GB 1e9

static const struct bench_figures machine = {
	.rates = {[BENCH_WRITE] = 2 * GB,
		  [BENCH_READ] = 4 * GB,
		  [BENCH_COPY_ONE] = 5 * GB,
		  [BENCH_COPY_ALL] = 10 * GB,
		  [BENCH_DIGEST_ONE] = 10 * GB,
		  [BENCH_DIGEST_ALL] = 40 * GB,
		  [BENCH_TOUCH_HUGE] = 8 * GB,
		  [BENCH_TOUCH_ORDINARY] = 1 * GB},
	.latencies = {[BENCH_FSYNC] = {1000000, 0}, [BENCH_LINK] = {500000, 0}, [BENCH_FSYNC_DIR] = {2000000, 0}},
	.cores = 4,
};

static void expect_near(double is, double due, const char *what)
{
	cr_expect(fabs(is - due) < 1e-9, "%s: %.9f, not %.9f", what, is, due);
}

Test(bench_estimate, one_rank_works_on_one_thread)
{
	struct bench_estimate e;
	bench_estimate(&machine, 40000000000, 1, &e);
	double small = 3 * 0.001 + 4 * 0.002 + 0.0005;
	expect_near(e.captured, 40 / 5.0 + 40 / 10.0, "captured");
	expect_near(e.durable, 12 + 40 / 2.0 + small, "durable");
	expect_near(e.verified, 32 + small + 40 / 4.0, "verified");
	expect_near(e.restored, 40 / 4.0 + 12, "restored");
}

Test(bench_estimate, more_ranks_are_faster_up_to_what_all_processors_do)
{
	struct bench_estimate two, eight, many;
	bench_estimate(&machine, 40000000000, 2, &two);
	bench_estimate(&machine, 40000000000, 8, &eight);
	bench_estimate(&machine, 40000000000, 800, &many);
	expect_near(two.captured, 40 / 10.0 + 40 / 20.0, "two");
	expect_near(eight.captured, 40 / 10.0 + 40 / 40.0, "eight");
	expect_near(many.captured, eight.captured, "many");
	expect_near(many.durable - many.captured - (eight.durable - eight.captured), 198 * 0.001,
		    "sidecars of 792 ranks, by fours");
}

Test(bench_estimate, what_is_slowest_counts)
{
	struct bench_figures slow = machine;
	struct bench_estimate e;
	slow.rates[BENCH_DIGEST_ONE] = slow.rates[BENCH_DIGEST_ALL] = 1 * GB;
	bench_estimate(&slow, 1000000000, 1, &e);
	expect_near(e.verified - e.durable, 1, "reading back is digested");
	slow = machine;
	slow.rates[BENCH_TOUCH_HUGE] = 0;
	bench_estimate(&slow, 1000000000, 1, &e);
	expect_near(e.restored - e.captured, 1, "without huge pages the touch of ordinary ones holds up a restore");
}
