#include "plan/plan_model.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define DAY 86400.0

static struct plan_input in;

static void setup(void)
{
	in = plan_defaults();
	in.gpus = 16384;
	in.mtbf_node = 2048 * 3.09 * 3600; /* one failure of 2,048 nodes every 3.09 h */
	in.state = 5.7e12;
	in.store_bandwidth = 200e9;
}

TestSuite(plan_model, .init = setup);

Test(plan_model, failures_are_those_of_all_nodes)
{
	in.mtbf_cluster = INFINITY;
	cr_expect_float_eq(plan_compute(&in).failures, 24 / 3.09, 1e-6);
}

Test(plan_model, intervals_keep_within_their_bounds)
{
	struct plan_result r = plan_compute(&in);
	cr_expect_str_eq(r.memory.bound, "formula");
	cr_expect_float_eq(fmod(r.memory.interval, in.step), 0, 1e-9);
	cr_expect_geq(r.memory.interval, r.memory.daly);
	in.stall = 10;
	in.overhead = 0.01;
	r = plan_compute(&in);
	cr_expect_str_eq(r.memory.bound, "overhead");
	cr_expect_float_eq(r.memory.interval, 1000, 1e-9);
	setup();
	in.step = 300;
	cr_expect_str_eq(plan_compute(&in).memory.bound, "step");
	setup();
	in.store_bandwidth = 1e9;
	r = plan_compute(&in);
	cr_expect_str_eq(r.storage.bound, "store");
	cr_expect_geq(r.storage.interval, 5700);
	setup();
	in.storage_most = 60;
	cr_expect_str_eq(plan_compute(&in).storage.bound, "most");
}

Test(plan_model, what_costs_less_or_fails_less_leaves_more)
{
	double now = plan_compute(&in).goodput;
	in.mtbf_node *= 2;
	cr_expect_gt(plan_compute(&in).goodput, now);
	setup();
	in.restart *= 2;
	cr_expect_lt(plan_compute(&in).goodput, now);
	setup();
	in.copies = 0;
	cr_expect_lt(plan_compute(&in).goodput, now);
	cr_expect_lt(plan_compute(&in).baseline_goodput, now);
}

Test(plan_model, needs_follow_from_the_intervals)
{
	struct plan_result r = plan_compute(&in);
	cr_expect_float_eq(r.store * r.storage.interval, in.state, 1);
	cr_expect_float_eq(r.fabric * r.memory.interval, r.node_state, 1);
	cr_expect_float_eq(r.host_memory, 5 * r.node_state, 1);
	cr_expect_leq(r.store, in.store_bandwidth);
	cr_expect_leq(r.fabric, in.fabric_bandwidth);
	in.price = 2.5;
	r = plan_compute(&in);
	cr_expect_float_eq(r.cost_day, (1 - r.goodput) * 16384 * 24 * 2.5, 1e-6);
}

Test(plan_model, what_would_pay_most_comes_first)
{
	struct plan_change changes[PLAN_CHANGES];
	plan_changes(&in, changes);
	for (int i = 1; i < PLAN_CHANGES; i++)
		cr_expect_geq(changes[i - 1].goodput, changes[i].goodput);
	cr_expect_str_eq(changes[0].what, "half the time to restart");
}
