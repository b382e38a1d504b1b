#include "campaign_folder.h"

TestSuite(report_match, .init = setup, .fini = teardown);

static void begin(void)
{
	put_begin(2);
	put_time("started", 0);
	put_start(0, 1, 500, 100);
	put_start(1, 1, 500, 100);
}

static const struct report_fault *fault(size_t i)
{
	cr_assert_lt(i, report.faults.n);
	return &report.faults.at[i];
}

#define DEVIATION "replicas differ: rank 0 deviates from the others in w"

Test(report_match, a_killed_rank_is_found_by_the_daemon_and_replaced)
{
	begin();
	put_fault(0, "kill", 1, "", 2000);
	put_way_back(0, 2, 2300, 290, 3, "rank 1 is lost: its process 7 has died", "the ring broke");
	put_start(1, 2, 2300, 100);
	make();
	cr_expect_eq(fault(0)->end, REPORT_RECOVERED);
	cr_expect_str_eq(fault(0)->found_by, "daemon");
	cr_expect_str_eq(fault(0)->found_text, "rank 1 is lost: its process 7 has died");
	cr_expect_float_eq(report_found_ms(fault(0)), 10, 1e-9);
	cr_expect_float_eq(report_back_ms(fault(0)), 300, 1e-9);
	cr_expect_float_eq(report.recoveries.at[1].parts[PART_DETECT], 10, 1e-9,
			   "from the fault, not the last heartbeat");
	cr_expect_eq(report.recoveries.at[1].fault, 0);
	cr_expect_eq(report.steps_lost, 3);
}

/* In the journal the outcome of a cut is known when the job is at work again. */
static void put_cut(unsigned ms, unsigned until)
{
	put("journal",
	    "{\"event\":\"fault\",\"index\":0,\"kind\":\"link-down\",\"rank\":0,\"node\":1,\"cause\":\"\","
	    "\"outcome\":\"fired\",\"for_ms\":100,\"wall_ns\":%llu000000,\"ms\":%u.0,\"text\":\"cut\"}",
	    SINCE + ms, until);
}

Test(report_match, what_is_lost_until_the_nodes_are_joined_is_of_the_cut)
{
	begin();
	put_cut(2000, 400);
	put_way_back(0, 2, 2300, 290, 3, "node node-1 is lost: Connection timed out", "the ring broke");
	put_start(1, 2, 2300, 100);
	make();
	cr_expect_eq(fault(0)->end, REPORT_RECOVERED);
	cr_expect_eq(fault(0)->recovery, 1);
	cr_expect_eq(fault(0)->for_ms, 100);
	cr_expect_str_eq(fault(0)->found_text, "node node-1 is lost: Connection timed out");
}

Test(report_match, a_cut_after_which_nothing_was_lost_claims_no_later_recovery)
{
	begin();
	put_cut(1000, 400);
	put_fault(1, "kill", 1, "", 2000);
	put_way_back(0, 2, 2300, 290, 3, "rank 1 is lost: its process 7 has died", "the ring broke");
	put_start(1, 2, 2300, 100);
	make();
	cr_expect_eq(fault(0)->end, REPORT_RECOVERED);
	cr_expect_eq(fault(0)->recovery, SIZE_MAX);
	cr_expect_null(fault(0)->found_by);
	cr_expect_float_eq(report_back_ms(fault(0)), 400, 1e-9);
	cr_expect_eq(fault(1)->recovery, 1);
}

Test(report_match, a_rank_that_joins_is_not_lost)
{
	begin();
	put_fault(0, "kill", 1, "", 2000);
	put_way_back(0, 2, 2300, 290, 3, "rank 1 joins", "the loss of step 43 is nan");
	make();
	cr_expect_eq(fault(0)->end, REPORT_OVERTAKEN);
	cr_expect_eq(report.recoveries.at[1].fault, SIZE_MAX);
}

Test(report_match, one_that_exits_early_is_known_by_the_process_that_came)
{
	begin();
	put_fault(0, "exit-early", 1, "", 2000);
	put_way_back(0, 2, 2300, 250, 3, "", "rank 1 is gone");
	put_start(1, 2, 2300, 100);
	make();
	cr_expect_eq(fault(0)->end, REPORT_RECOVERED);
	cr_expect_float_eq(report_found_ms(fault(0)), 50, 1e-9);
}

Test(report_match, two_flips_have_a_recovery_each)
{
	begin();
	put_fault(0, "flip", 0, "", 2000);
	put_way_back(0, 2, 2300, 100, 3, "rank 1 joins", DEVIATION);
	put_fault(1, "flip", 0, "", 4000);
	put_way_back(0, 3, 4500, 100, 5, "rank 1 joins", DEVIATION);
	put_fault(2, "flip", 0, "", 6000);
	make();
	cr_expect_eq(fault(0)->recovery, 1);
	cr_expect_eq(fault(1)->recovery, 2);
	cr_expect_eq(fault(2)->recovery, SIZE_MAX);
	cr_expect_eq(fault(2)->end, REPORT_UNSEEN);
	cr_expect_str_eq(fault(1)->found_by, "trainer");
	cr_expect_float_eq(report_found_ms(fault(1)), 400, 1e-9);
}

Test(report_match, a_flip_that_another_recovery_undid_takes_none_of_the_next)
{
	begin();
	put_fault(0, "flip", 0, "", 2000);
	put_fault(1, "kill", 1, "", 2010);
	put_way_back(0, 2, 2300, 250, 3, "rank 1 is lost: its process 7 has died", "the ring broke");
	put_fault(2, "flip", 0, "", 4000);
	put_way_back(0, 3, 4500, 100, 5, "rank 1 joins", DEVIATION);
	make();
	cr_expect_eq(fault(0)->end, REPORT_OVERTAKEN);
	cr_expect_eq(fault(1)->recovery, 1);
	cr_expect_eq(fault(2)->recovery, 2);
}

Test(report_match, a_hang_is_named_by_the_launcher)
{
	begin();
	put("run.log", "ckpt run: rank 1 joins");
	put("run.log", "ckpt run: rank 0 hangs: no heartbeat for 4.1 s");
	put("run.log", "ckpt run: rank 1 hangs: no heartbeat for 4.2 s");
	put_fault(0, "absent", 1, "", 2000);
	put_way_back(0, 2, 6500, 300, 3, "rank 1 is lost: its process 7 has died", "the ring broke");
	put_start(1, 2, 6500, 100);
	make();
	cr_expect_str_eq(fault(0)->found_by, "launcher");
	cr_expect_str_eq(fault(0)->found_text, "rank 1 hangs: no heartbeat for 4.2 s");
	cr_expect_float_eq(report_found_ms(fault(0)), 4200, 1e-9);
}

Test(report_match, the_daemon_s_end_has_no_time_at_which_it_was_found)
{
	begin();
	put_fault(0, "kill-daemon", 0, "", 2000);
	put("journal", "{\"event\":\"daemon\",\"answers\":false,\"wall_ns\":%llu000000}", SINCE + 2050);
	put("journal", "{\"event\":\"daemon\",\"answers\":true,\"wall_ns\":%llu000000}", SINCE + 2400);
	make();
	cr_expect_eq(fault(0)->end, REPORT_RECOVERED);
	cr_expect(isnan(report_found_ms(fault(0))));
	cr_expect_float_eq(report_back_ms(fault(0)), 400, 1e-9);
}

Test(report_match, a_daemon_that_is_stopped_shortly_is_not_seen_by_what_becomes_of_it_later)
{
	begin();
	put_fault(0, "stop-daemon", 0, "", 2000);
	put("journal", "{\"event\":\"daemon\",\"answers\":false,\"wall_ns\":%llu000000}", SINCE + 9000);
	put("journal", "{\"event\":\"daemon\",\"answers\":true,\"wall_ns\":%llu000000}", SINCE + 9400);
	make();
	cr_expect_eq(fault(0)->end, REPORT_UNSEEN);
}

Test(report_match, a_job_whose_coordinator_is_back_begins_anew)
{
	begin();
	put_fault(0, "kill-daemon", 0, "", 2000);
	put_way_back(0, 2, 2300, 290, 3, "2 ranks begin", "canceled in all_gather #59");
	put_start(1, 2, 2300, 100);
	make();
	cr_expect_eq(report.recoveries.at[1].fault, 0);
	cr_expect_eq(fault(0)->recovery, 1);
}

static void put_save(unsigned step, unsigned epoch, unsigned ms, bool durable, const char *error)
{
	put("spans",
	    "{\"span\":\"save\",\"node\":\"n1\",\"target\":\"storage\",\"step\":%u,\"epoch\":%u,\"begun_ns\":%"
	    "llu000000,"
	    "\"durable_ns\":%s,\"error\":%s}",
	    step, epoch, SINCE + ms, durable ? "30000000" : "null", error);
}

Test(report_match, a_full_disk_is_over_with_the_next_save_that_is_durable)
{
	begin();
	put_fault(0, "disk-full", 0, "SSD", 2000);
	put_fault(1, "disk-eio", 0, "SSD", 9000);
	put_save(10, 1, 500, true, "null");
	put_save(20, 1, 1950, true, "\"reading back found: it is damaged\"");
	put_save(30, 1, 2100, false, "\"writing failed: No space left on device\"");
	put_save(40, 1, 3700, true, "null");
	make();
	cr_expect_eq(fault(0)->end, REPORT_RECOVERED);
	cr_expect_str_eq(fault(0)->found_text, "writing failed: No space left on device");
	cr_expect_float_eq(report_found_ms(fault(0)), 5, 1e-9, "when it fired");
	cr_expect_float_eq(report_back_ms(fault(0)), 1730, 1e-9);
	cr_expect_eq(fault(1)->end, REPORT_UNSEEN);
}

Test(report_match, a_time_without_sense_overflows_none)
{
	begin();
	put("journal",
	    "{\"event\":\"fault\",\"index\":0,\"kind\":\"disk-full\",\"rank\":0,\"cause\":\"\",\"outcome\":\"fired\","
	    "\"wall_ns\":%llu000000,\"ms\":1e300,\"text\":\"\"}",
	    SINCE + 2000);
	put_save(30, 1, 2100, false, "\"writing failed: No space left on device\"");
	make();
	cr_expect_float_eq(report_found_ms(fault(0)), 1e12, 1);
}

static void put_flip(unsigned index, const char *kind, const char *text, unsigned ms)
{
	put("journal",
	    "{\"event\":\"fault\",\"index\":%u,\"kind\":\"%s\",\"rank\":1,\"cause\":\"\",\"outcome\":\"fired\","
	    "\"wall_ns\":%llu000000,\"ms\":5.0,\"text\":\"%s\"}",
	    index, kind, SINCE + ms, text);
}

static void put_recovery_span(unsigned step, unsigned epoch, unsigned ms, const char *passed_over)
{
	put("spans",
	    "{\"span\":\"recovery\",\"node\":\"n1\",\"step\":%u,\"epoch\":%u,\"ended_ns\":%llu000000,\"source\":"
	    "\"storage\","
	    "\"reason\":\"rank 0 is lost: its process 7 has died\",\"state\":\"cut-short\",\"passed_over\":\"%s\"}",
	    step, epoch, SINCE + ms, passed_over);
}

Test(report_match, a_flipped_bit_is_found_by_whoever_reads_that_step)
{
	static const char *const passed_over = "step 38 epoch 1: rank-00000.safetensors: damaged";
	begin();
	put_flip(0, "flip-arena", "bit 3 of byte 5 of rank 1's step 38 of epoch 1 flipped in its arena", 1000);
	put_flip(1, "flip-file", "bit 1 of byte 7 of rank-0.safetensors of step 38 of epoch 1 flipped", 1100);
	put_flip(2, "flip-file", "bit 1 of byte 7 of rank-0.safetensors of step 30 of epoch 1 flipped", 1200);
	put_save(38, 1, 990, true, "\"reading back found: rank-0.safetensors: damaged\"");
	put_save(40, 1, 1150, true, "null");
	put_fault(3, "kill", 0, "", 2000);
	put_recovery_span(36, 2, 2080, passed_over);
	put_way_back(1, 2, 2300, 250, 3, "rank 0 is lost: its process 7 has died", "");
	make();
	cr_expect_eq(fault(0)->end, REPORT_FOUND);
	cr_expect_str_eq(fault(0)->found_by, "daemon");
	cr_expect_str_eq(fault(0)->found_text, "reading back found: rank-0.safetensors: damaged");
	cr_expect(isnan(report_found_ms(fault(0))), "nobody notes when");
	cr_expect_eq(fault(2)->end, REPORT_UNSEEN, "nobody has read it");
	cr_expect_eq(fault(3)->recovery, 1);
}

Test(report_match, what_a_restore_passes_over_is_found_by_it)
{
	begin();
	put_flip(0, "flip-arena", "bit 3 of byte 5 of rank 1's step 40 of epoch 1 flipped in its arena", 1000);
	put_flip(1, "flip-file", "bit 1 of byte 7 of rank-0.safetensors of step 38 of epoch 1 flipped", 1100);
	put_fault(2, "kill", 0, "", 2000);
	put_recovery_span(30, 2, 2080,
			  "step 40 epoch 1: rank 1: damaged; step 38 epoch 1: rank-0.safetensors: damaged");
	put_way_back(1, 2, 2300, 250, 3, "rank 0 is lost: its process 7 has died", "");
	put_flip(3, "flip-arena", "bit 3 of byte 5 of rank 1's step 44 of epoch 2 flipped in its arena", 3000);
	put_fault(4, "kill", 0, "", 4000);
	put_way_back(1, 3, 4300, 250, 3, "rank 0 is lost: its process 8 has died", "");
	make();
	for (size_t i = 0; i < 2; i++) {
		cr_expect_eq(fault(i)->end, REPORT_FOUND);
		cr_expect_str_eq(fault(i)->found_by, "restore");
		cr_expect_float_eq(report_found_ms(fault(i)), 1300 - 100 * (double)i, 1e-9);
	}
	cr_expect_eq(fault(3)->end, REPORT_UNSEEN, "a later save has overwritten it");
}

Test(report_match, a_slow_rank_is_named_and_nothing_is_restored)
{
	begin();
	put_fault(0, "slow", 1, "", 2000);
	put("train.jsonl", "{\"event\":\"straggler\",\"rank\":0,\"pid\":7,\"at_ns\":%llu000000,\"slow\":true}",
	    SINCE + 2100);
	put("train.jsonl", "{\"event\":\"straggler\",\"rank\":1,\"pid\":7,\"at_ns\":%llu000000,\"slow\":true}",
	    SINCE + 2200);
	make();
	cr_expect_eq(fault(0)->end, REPORT_FOUND);
	cr_expect_float_eq(report_found_ms(fault(0)), 200, 1e-9);
	cr_expect(isnan(report_back_ms(fault(0))));
}

Test(report_match, a_spike_of_the_loss_is_named_by_a_daemon)
{
	begin();
	put_fault(0, "loss-spike", 1, "", 2000);
	put_fault(1, "loss-spike", 1, "", 9000);
	put("journal", "{\"event\":\"loss\",\"node\":0,\"kind\":\"not-finite\",\"wall_ns\":%llu000000}", SINCE + 2001);
	put("journal", "{\"event\":\"loss\",\"node\":0,\"kind\":\"spike\",\"wall_ns\":%llu000000}", SINCE + 2150);
	make();
	cr_expect_eq(fault(0)->end, REPORT_FOUND);
	cr_expect_str_eq(fault(0)->found_by, "daemon");
	cr_expect_float_eq(report_found_ms(fault(0)), 150, 1e-9);
	cr_expect_eq(fault(1)->end, REPORT_UNSEEN);
}

#define OTHER_COLLECTIVE "mismatch: rank 1 is in all-gather #7 of 4096 bytes, rank 0 in reduce-scatter #7 of 4096 bytes"

Test(report_match, a_mismatch_is_named_by_whichever_rank_saw_it)
{
	begin();
	put_fault(0, "mismatch", 1, "", 2000);
	put_way_back(1, 2, 2300, 100, 3, "rank 0 joins", "rank 0 cannot be reached");
	put_way_back(0, 2, 2310, 100, 3, "rank 0 joins", OTHER_COLLECTIVE);
	make();
	cr_expect_eq(fault(0)->recovery, 1);
	cr_expect_str_eq(fault(0)->found_by, "trainer");
	cr_expect_str_eq(fault(0)->found_text, OTHER_COLLECTIVE);
}

Test(report_match, another_recovery_is_none_of_a_mismatch)
{
	begin();
	put_fault(0, "mismatch", 1, "", 2000);
	put_fault(1, "kill", 0, "", 2010);
	put_way_back(1, 2, 2300, 100, 3, "rank 0 is lost: its process 7 has died", "rank 0 cannot be reached");
	make();
	cr_expect_eq(fault(0)->end, REPORT_OVERTAKEN);
	cr_expect_eq(fault(1)->recovery, 1);
}

Test(report_match, two_kills_of_a_rank_in_a_row_share_no_recovery)
{
	begin();
	put_fault(0, "kill", 1, "", 2000);
	put_fault(1, "kill", 1, "", 2100);
	put_way_back(0, 2, 2300, 250, 3, "rank 1 is lost: its process 7 has died", "");
	put_way_back(0, 3, 2600, 250, 4, "rank 1 is lost: its process 8 has died", "");
	put_fault(2, "kill", 1, "", 4000);
	put_fault(3, "kill", 1, "", 4010);
	put_way_back(0, 4, 4300, 200, 2, "rank 1 is lost: its process 9 has died", "");
	make();
	cr_expect_eq(fault(0)->recovery, 1);
	cr_expect_eq(fault(1)->recovery, 2);
	cr_expect_eq(fault(2)->recovery, 3);
	cr_expect_eq(fault(3)->end, REPORT_OVERTAKEN);
}

Test(report_match, a_loss_long_after_is_of_nobody)
{
	begin();
	put_fault(0, "kill", 1, "", 2000);
	put_way_back(0, 2, 100000, 200, 3, "rank 1 is lost: its process 7 has died", "");
	make();
	cr_expect_eq(report.recoveries.at[1].fault, SIZE_MAX);
	cr_expect_eq(fault(0)->recovery, SIZE_MAX);
}

Test(report_match, a_kind_of_a_later_release_is_told_too)
{
	begin();
	put_fault(0, "meteorite", 1, "", 2000);
	put("journal",
	    "{\"event\":\"fault\",\"index\":1,\"kind\":\"kill\",\"rank\":1,\"cause\":\"\",\"outcome\":\"not-fired\","
	    "\"wall_ns\":%llu000000,\"ms\":5.0,\"text\":\"there is no such rank\"}",
	    SINCE + 3000);
	make();
	cr_expect_str_eq(fault(0)->kind, "meteorite");
	cr_expect_eq(fault(0)->end, REPORT_UNSEEN);
	cr_expect_eq(fault(1)->end, REPORT_NOT_FIRED);
}
