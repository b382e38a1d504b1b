#include "campaign_folder.h"

TestSuite(report_goodput, .init = setup, .fini = teardown);

static void put_save(unsigned rank, unsigned step, unsigned ms, double took)
{
	put("train.jsonl",
	    "{\"event\":\"save\",\"rank\":%u,\"at_ns\":%llu000000,\"step\":%u,\"begin_ms\":0,\"fence_ms\":%g}", rank,
	    SINCE + ms, step, took);
}

/* 10 s after the start, of which 1 s is a recovery, 0.5 s are saves, and 5 of 90 steps are done again. */
static void put_campaign(void)
{
	put_begin(2);
	put_time("started", 0);
	for (unsigned rank = 0; rank < 2; rank++) {
		put_start(rank, 1, 1000, 100);
		put_save(rank, 80, 4000, 500);
	}
	put_fault(0, "kill", 1, "", 5000);
	put_way_back(0, 2, 6000, 990, 5, "rank 1 is lost: its process 7 has died", "");
	put_start(1, 2, 6000, 200);
	put_save(0, 85, 10000, 0);
	put_time("stopped", 11000);
}

Test(report_goodput, each_second_is_counted_once)
{
	put_campaign();
	const struct report_goodput *g = &make()->goodput;
	cr_expect_float_eq(g->elapsed, 11, 1e-9);
	cr_expect_float_eq(g->starting, 1, 1e-9);
	cr_expect_float_eq(g->recovering, 1, 1e-9);
	cr_expect_float_eq(g->saving, 0.5, 1e-6, "both ranks wait at the same time");
	cr_expect_float_eq(g->step_s, 8.5 / 90, 1e-6);
	cr_expect_float_eq(g->repeated, 5 * 8.5 / 90, 1e-6);
	cr_expect_float_eq(g->elapsed, g->starting + g->recovering + g->saving + g->repeated + g->computing, 1e-9);
	cr_expect_float_eq(g->measured, g->computing / 10, 1e-9);
	cr_expect(isnan(g->simulated), "without a span log the model has nothing to go by");
}

Test(report_goodput, each_rank_s_time_is_told_apart)
{
	put_campaign();
	make();
	const double *lost = report.at[1].seconds, *other = report.at[0].seconds;
	cr_expect_float_eq(lost[STATE_STARTING], 1, 1e-9);
	cr_expect_float_eq(lost[STATE_LOST], 0.8, 1e-9, "from the fault until the new process asks to join");
	cr_expect_float_eq(lost[STATE_RECOVERING], 0.2, 1e-9);
	cr_expect_float_eq(other[STATE_LOST], 0, 1e-9);
	cr_expect_float_eq(other[STATE_RECOVERING], 1, 1e-9);
	cr_expect_float_eq(lost[STATE_COMPUTING], 11 - 1 - 1 - 0.5, 1e-6);
}

Test(report_goodput, the_model_gets_what_was_measured)
{
	put_campaign();
	for (unsigned i = 0; i < 84; i++) /* one per interval, as the campaign says; all but two cost nothing */
		put_save(i % 2, i, 1500, 0);
	for (unsigned i = 0; i < 10; i++)
		put("spans",
		    "{\"schema\":1,\"span\":\"save\",\"node\":\"n1\",\"target\":\"storage\",\"begun_ns\":%llu000000,"
		    "\"captured_ns\":1000000,"
		    "\"durable_ns\":30000000,\"write_ns\":20000000,\"captured_bytes\":1000000,\"error\":null}",
		    SINCE + 1000 * i);
	const struct report_goodput *g = &make()->goodput;
	/* one loss in ten seconds, which takes one: 9/10; 45 saves of 0.5 s together in 8.5 s of steps */
	cr_expect_float_eq(g->formula, 0.9 * 8.5 / 9, 0.015, "%g", g->formula);
	cr_expect_float_eq(g->formula, g->simulated, 0.02, "%g and %g", g->formula, g->simulated);
	cr_expect_lt(g->spread, 0.1);
}
