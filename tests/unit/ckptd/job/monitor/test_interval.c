#include "job/monitor/interval.h"

#include "base/interval.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct interval_limits limits = {
	.automatic = true, .storage = true, .copies = true, .nodes = 4, .overhead = 0.05, .most = 3600};

Test(interval_plan, begins_with_what_measures_a_step_and_a_save)
{
	struct interval_plan p;
	interval_plan(&(struct interval_measure){0}, &limits, &p);
	cr_expect(p.memory.every == 4 && p.storage.every == 16 && p.steps == 16);
	cr_expect_str_eq(p.memory.bound, "start");
	cr_expect(!p.memory.cost_measured && !p.memory.mtbf_measured);
	cr_expect_float_eq(p.memory.mtbf, INTERVAL_NODE_MTBF / 4, 1, "what is assumed, for 4 nodes");
	cr_expect_float_eq(p.storage.mtbf, INTERVAL_OUTAGE_MTBF, 1, "copies serve the loss of a node");
	interval_plan(&(struct interval_measure){.step = 0.001}, &limits, &p);
	cr_expect(p.memory.every == 4 && p.steps == 500, "no save was made yet");
	interval_plan(&(struct interval_measure){.step = 0.001, .saves = 3, .stall = 0.01}, &limits, &p);
	cr_expect(p.memory.every == 4 && !p.memory.cost_measured, "a few saves are wanted");
	interval_plan(&(struct interval_measure){.step = 0.001, .saves = 4, .stall = 0.01}, &limits, &p);
	cr_expect(p.memory.every > 1000 && p.memory.cost_measured);
	struct interval_limits here = limits;
	here.storage = false;
	interval_plan(&(struct interval_measure){0}, &here, &p);
	cr_expect_eq(p.storage.every, 0);
	here.automatic = false;
	interval_plan(&(struct interval_measure){.step = 1, .stall = 1}, &here, &p);
	cr_expect(!p.memory.every && !p.storage.every && p.steps);
}

/* Daly's worked values, as minutes: the cost of a save, the time between failures, and the interval. */
Test(interval_plan, is_daly_s_between_its_bounds)
{
	static const double worked[][3] = {{5, 1440, 116.7}, {5, 360, 56.7}, {5, 15, 9.14}};
	struct interval_limits l = limits;
	l.overhead = 0.9;
	l.most = 1e9;
	for (unsigned i = 0; i < 3; i++) {
		struct interval_measure m = {.step = 0.1,
					     .saves = 9,
					     .stall = 60 * worked[i][0],
					     .observed = 6e5 * worked[i][1],
					     .memory_losses = 10000};
		struct interval_plan p;
		interval_plan(&m, &l, &p);
		cr_expect_float_eq(p.memory.mtbf, 60 * worked[i][1], 1e-6);
		cr_expect_float_eq(p.memory.seconds / 60, worked[i][2], 0.06, "%g", p.memory.seconds / 60);
		cr_expect_str_eq(p.memory.bound, "formula");
		cr_expect(p.memory.mtbf_measured && p.memory.cost_measured);
		cr_expect_eq(p.memory.every, (uint64_t)(p.memory.seconds / m.step + 0.5));
	}
}

Test(interval_plan, is_never_more_often_than_a_save_takes_or_the_share_of_overhead_allows)
{
	struct interval_measure m = {
		.step = 1, .saves = 9, .stall = 0.01, .captured = 30, .observed = 100, .memory_losses = 50};
	struct interval_plan p;
	interval_plan(&m, &limits, &p);
	cr_expect(p.memory.every == 30 && !strcmp(p.memory.bound, "save"), "%lu", (unsigned long)p.memory.every);
	m.replicated = 40.5;
	interval_plan(&m, &limits, &p);
	cr_expect_eq(p.memory.every, 41, "until other nodes hold it");
	m.stall = 4;
	interval_plan(&m, &limits, &p);
	cr_expect(p.memory.every == 80 && !strcmp(p.memory.bound, "overhead"), "5%% of the time");
	m.durable = 900;
	m.storage_losses = 50;
	interval_plan(&m, &limits, &p);
	cr_expect(p.storage.every == 960 && !strcmp(p.storage.bound, "save"), "whole saves to memory");
	m = (struct interval_measure){.step = 100, .saves = 9, .stall = 0.01, .observed = 100, .memory_losses = 50};
	interval_plan(&m, &limits, &p);
	cr_expect(p.memory.every == 1 && !strcmp(p.memory.bound, "step"));
}

Test(interval_plan, storage_s_own_cost_counts_once_enough_saves_have_shown_it)
{
	struct interval_measure m = {.step = 1,
				     .saves = 9,
				     .stall = 0.5,
				     .storage_saves = 3,
				     .storage_stall = 8,
				     .observed = 100,
				     .memory_losses = 20,
				     .storage_losses = 1};
	struct interval_plan p;
	interval_plan(&m, &limits, &p);
	cr_expect_float_eq(p.storage.cost, 0.5, 1e-9);
	uint64_t every = p.storage.every;
	m.storage_saves = 4;
	interval_plan(&m, &limits, &p);
	cr_expect_float_eq(p.storage.cost, 8, 1e-9);
	cr_expect_float_eq(p.memory.cost, 0.5, 1e-9);
	cr_expect_gt(p.storage.every, every, "what costs more comes less often");
}

Test(interval_plan, losses_of_nodes_need_storage_where_no_other_node_holds_copies)
{
	struct interval_measure m = {.step = 1,
				     .saves = 9,
				     .stall = 0.5,
				     .observed = 1000,
				     .memory_losses = 5,
				     .storage_losses = 1,
				     .copied_nodes = 4};
	struct interval_limits l = limits;
	struct interval_plan p;
	l.copies = true;
	interval_plan(&m, &l, &p);
	cr_expect(p.memory.losses == 5 && p.storage.losses == 1);
	l.copies = false;
	interval_plan(&m, &l, &p);
	cr_expect(p.memory.losses == 1 && p.storage.losses == 5);
	cr_expect_float_eq(p.storage.mtbf, 200, 1e-9);
}

Test(interval_plan, is_never_rarer_than_the_most)
{
	for (double step = 0.003; step < 2000; step *= 1.7) {
		struct interval_measure m = {.step = step, .saves = 9, .stall = 2};
		struct interval_plan p;
		interval_plan(&m, &limits, &p);
		cr_expect_leq(p.memory.seconds, 3600 + 1e-6, "step %g: %g", step, p.memory.seconds);
		cr_expect_leq(p.storage.seconds, 3600 + 1e-6, "step %g: %g", step, p.storage.seconds);
		cr_expect_eq(p.storage.every % p.memory.every, 0);
		cr_expect_geq(p.steps, 2 * p.memory.every);
	}
}

Test(interval_plan, failures_make_it_shorter)
{
	struct interval_measure m = {.step = 0.5, .saves = 9, .stall = 0.2, .durable = 3, .observed = 7200};
	uint64_t memory = UINT64_MAX, storage = UINT64_MAX;
	struct interval_plan p;
	for (m.memory_losses = 0; m.memory_losses <= 100; m.memory_losses = m.memory_losses * 5 + 4) {
		m.storage_losses = m.memory_losses / 4;
		interval_plan(&m, &limits, &p);
		cr_expect_lt(p.memory.every, memory);
		cr_expect_lt(p.storage.every, storage);
		memory = p.memory.every;
		storage = p.storage.every;
	}
}

/* What a rank says may be anything. */
Test(interval_plan, is_sound_whatever_was_measured)
{
	static const double odd[] = {0, 1e-9, 1, 1e9, 1e15};
	struct interval_plan p;
	for (unsigned i = 0; i < 625; i++) {
		struct interval_measure m = {.step = odd[i % 5],
					     .saves = i,
					     .stall = odd[i / 5 % 5],
					     .captured = odd[i / 25 % 5],
					     .durable = odd[i / 125],
					     .memory_losses = i};
		interval_plan(&m, &limits, &p);
		cr_expect(p.memory.every >= 1 && p.memory.every <= STEP_MAX, "%u", i);
		cr_expect(p.storage.every >= 1 && p.storage.every <= STEP_MAX, "%u", i);
		cr_expect(p.steps >= 1 && p.steps <= STEP_MAX, "%u", i);
	}
}
