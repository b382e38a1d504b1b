#include "plan/plan_sim.h"

#include "base/interval.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

#define DAY 86400.0
#define YEAR (365.25 * DAY)

static struct plan_input input(double gpus, double mtbf_node, unsigned copies)
{
	struct plan_input in = plan_defaults();
	in.gpus = gpus;
	in.mtbf_node = mtbf_node;
	in.copies = copies;
	in.state = 5.7e12 * gpus / 16384;
	in.store_bandwidth = 200e9;
	return in;
}

static double mean(struct plan_sim (*run)(const struct plan_input *, const struct plan_result *, double, uint64_t),
		   const struct plan_input *in, const struct plan_result *r)
{
	double sum = 0;
	for (uint64_t seed = 1; seed <= 8; seed++)
		sum += run(in, r, 90 * DAY, seed).goodput;
	return sum / 8;
}

/* The two know nothing of each other. */
Test(plan_sim, agrees_with_the_formula_within_a_point)
{
	for (unsigned copies = 0; copies <= 2; copies++) {
		for (double gpus = 1024; gpus <= 131072; gpus *= 2) {
			struct plan_input in = input(gpus, 5 * YEAR, copies);
			struct plan_result r = plan_compute(&in);
			double sim = mean(plan_simulate, &in, &r);
			double sync = mean(plan_simulate_baseline, &in, &r);
			cr_expect_float_eq(sim, r.goodput, 0.01, "%u copies, %.0f GPUs: %.4f, by formula %.4f", copies,
					   gpus, sim, r.goodput);
			cr_expect_float_eq(sync, r.baseline_goodput, 0.015, "%.0f GPUs: %.4f, by formula %.4f", gpus,
					   sync, r.baseline_goodput);
		}
	}
}

Test(plan_sim, no_save_is_missed_by_rounding)
{
	struct plan_input in = input(8, 1e9 * YEAR, 0);
	in.mtbf_cluster = INFINITY;
	in.stall = 0.0006;
	struct plan_result r = plan_compute(&in);
	r.memory.interval = 0.0356;
	cr_expect_float_eq((double)plan_simulate(&in, &r, 1000, 1).saves, 1000 / (0.0356 + 0.0006), 1);
	in.baseline = 0.0356;
	r.write = 0.0006;
	cr_expect_float_eq((double)plan_simulate_baseline(&in, &r, 1000, 1).saves, 1000 / (0.0356 + 0.0006), 1);
}

Test(plan_sim, is_a_function_of_its_seed)
{
	struct plan_input in = input(16384, YEAR, 1);
	struct plan_result r = plan_compute(&in);
	struct plan_sim a = plan_simulate(&in, &r, 30 * DAY, 7), b = plan_simulate(&in, &r, 30 * DAY, 7),
			c = plan_simulate(&in, &r, 30 * DAY, 8);
	cr_expect(a.goodput == b.goodput && a.failures == b.failures && a.lost_work == b.lost_work);
	cr_expect(a.goodput != c.goodput);
}

Test(plan_sim, shares_are_all_of_the_time)
{
	struct plan_input in = input(131072, 5 * YEAR, 1);
	struct plan_result r = plan_compute(&in);
	struct plan_sim s = plan_simulate(&in, &r, 90 * DAY, 3);
	cr_expect_float_eq(s.goodput + s.stalled + s.lost + s.recovering, 1, 1e-6);
	cr_expect_gt(s.failures, 500);
	cr_expect_leq(s.from_memory + s.from_storage, s.failures);
}

Test(plan_sim, without_copies_the_loss_of_a_node_needs_storage_and_with_them_hardly_ever)
{
	struct plan_input none = input(16384, YEAR, 0), one = input(16384, YEAR, 1);
	struct plan_result r0 = plan_compute(&none), r1 = plan_compute(&one);
	struct plan_sim s0 = plan_simulate(&none, &r0, 90 * DAY, 5), s1 = plan_simulate(&one, &r1, 90 * DAY, 5);
	cr_expect_gt(s0.from_storage, s0.failures / 3);
	cr_expect_lt(s1.from_storage, 10);
}

Test(plan_sim, copies_are_lost_where_nodes_fail_faster_than_they_are_made_anew)
{
	struct plan_input in = input(64, 3600, 1);
	in.mtbf_cluster = INFINITY;
	in.soft = 1e-9;
	struct plan_result r = plan_compute(&in);
	struct plan_sim s = plan_simulate(&in, &r, DAY, 5);
	cr_expect_gt(s.from_storage, 0, "of %lu failures", (unsigned long)s.failures);
	cr_expect_gt(s.from_memory, 0);
}

/* Restarts that take three times as long as training lasts between failures. */
Test(plan_sim, spares_a_job_that_recovers_as_the_formula_says)
{
	struct plan_input in = input(8, 50, 0);
	in.spared = true;
	in.soft = 1;
	in.mtbf_cluster = INFINITY;
	in.detect = 0;
	in.restart = 150;
	in.stall = 0.001;
	struct plan_result r = plan_compute(&in);
	r.memory.interval = 0.1;
	r.capture = 0.001;
	double is = mean(plan_simulate, &in, &r),
	       due = interval_goodput_spared(r.memory.interval, r.stall, r.memory.restart + r.capture, in.mtbf_node);
	cr_expect_float_eq(is, due, 0.005, "%.4f, by formula %.4f", is, due);
	struct plan_sim s = plan_simulate(&in, &r, DAY, 3);
	cr_expect_float_eq((double)s.failures, DAY / (in.mtbf_node + r.memory.restart), DAY / 2000);
	in.spared = false;
	cr_expect_lt(plan_simulate(&in, &r, DAY, 3).goodput, due / 2, "others strike meanwhile");
}

/* 131,072 GPUs, 90 days: a command has 10 s for 16 of these. */
Test(plan_sim, is_quick)
{
	struct plan_input in = input(131072, 5 * YEAR, 1);
	struct plan_result r = plan_compute(&in);
	struct timespec from, to;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	plan_simulate(&in, &r, 90 * DAY, 1);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	double seconds = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
	cr_expect_lt(seconds, 5, "%.2f s with sanitizers", seconds);
}

/* A failure each microsecond, thousands of nodes without memory, and a save each microsecond. */
Test(plan_sim, ends_early_and_says_so_where_too_much_happens)
{
	struct plan_input often = input(1e8, 1e-6, 4), lost = input(1e8, 100 * DAY, 4), alone = input(8, 1e-6, 0),
			  saves = input(8, YEAR, 1);
	lost.restart = YEAR;
	alone.soft = 1e-9;
	saves.baseline = saves.step = saves.stall = 1e-6;
	saves.overhead = 1;
	struct plan_input *const all[] = {&often, &lost, &alone, &saves};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct plan_result r = plan_compute(all[i]);
		clock_t from = clock();
		struct plan_sim s = plan_simulate(all[i], &r, 3650 * DAY, 1),
				b = plan_simulate_baseline(all[i], &r, 3650 * DAY, 1);
		double took = (double)(clock() - from) / CLOCKS_PER_SEC;
		cr_expect_lt(took, 20, "%zu: %.1f s", i, took);
		cr_expect(s.seconds > 0 && s.seconds < 3650 * DAY, "%zu: %g s", i, s.seconds);
		cr_expect(s.goodput >= 0 && s.goodput <= 1 && b.goodput >= 0 && b.goodput <= 1, "%zu: %g, %g", i,
			  s.goodput, b.goodput);
	}
}

Test(plan_sim, does_all_that_was_asked_for_where_it_can)
{
	struct plan_input in = input(131072, 5 * YEAR, 1);
	struct plan_result r = plan_compute(&in);
	cr_expect_eq(plan_simulate(&in, &r, 90 * DAY, 1).seconds, 90 * DAY);
	cr_expect_eq(plan_simulate_baseline(&in, &r, 90 * DAY, 1).seconds, 90 * DAY);
}
