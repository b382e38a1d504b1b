#include "campaign_folder.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(report_read, .init = setup, .fini = teardown);

Test(report_read, what_is_no_campaign_is_refused)
{
	char path[SCRATCH_MAX + 16];
	made = true;
	cr_expect_eq(report_make(folder, &report, &err), -ENOENT);
	cr_expect(strstr(err.text, "journal"), "%s", err.text);
	put("journal", "{\"event\":\"other\"}");
	report_free(&report);
	cr_expect_eq(report_make(folder, &report, &err), -EBADMSG);
	report_free(&report);
	snprintf(path, sizeof(path), "%s/journal", folder);
	unlink(path);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_expect_eq(report_make(folder, &report, &err), -EINVAL, "it is not waited for");
}

Test(report_read, one_that_has_only_begun_has_nothing_to_tell)
{
	put_begin(2);
	const struct report *r = make();
	cr_expect_eq(r->ranks, 2);
	cr_expect_eq(r->planned, 4);
	cr_expect_eq(r->faults.n + r->recoveries.n + r->causes.n + r->intervals.n, 0);
	cr_expect(isnan(r->goodput.measured));
	cr_expect_eq(r->exit_code, -1);
}

Test(report_read, one_that_was_cut_off_tells_what_is_known)
{
	put_begin(2);
	put_time("started", 0);
	put_time("at-work", 1000);
	put_start(0, 1, 900, 500);
	put_start(1, 1, 950, 500);
	put_fault(0, "kill", 1, "", 2000);
	put("train.jsonl",
	    "{\"event\":\"save\",\"rank\":0,\"at_ns\":%llu000000,\"step\":60,\"begin_ms\":0.5,\"fence_ms\":1.5}",
	    SINCE + 3000);
	put("train.jsonl", "what is no JSON");
	char path[SCRATCH_MAX + 16];
	snprintf(path, sizeof(path), "%s/journal", folder);
	FILE *f = fopen(path, "a");
	fputs("{\"event\":\"fau", f);
	fclose(f);
	const struct report *r = make();
	cr_expect_eq(r->unreadable, 1, "a last line that is not whole is none");
	cr_expect_eq(r->faults.n, 1);
	cr_expect_eq(r->faults.at[0].end, REPORT_UNSEEN);
	cr_expect_eq(r->step, 60);
	cr_expect_float_eq(r->goodput.elapsed, 3, 1e-9, "until what was noted last");
	cr_expect_float_eq(r->goodput.starting, 0.95, 1e-9);
}

Test(report_read, a_line_that_is_no_text_takes_no_other_with_it)
{
	char path[SCRATCH_MAX + 16];
	put_begin(2);
	put_time("started", 0);
	snprintf(path, sizeof(path), "%s/journal", folder);
	FILE *f = fopen(path, "a");
	cr_assert(f);
	fwrite("{\"event\":\"dur\0ble\"}\n", 1, 20, f);
	fprintf(f, "%*s\n", 1 << 17, "x");
	fclose(f);
	put_fault(0, "kill", 1, "", 2000);
	const struct report *r = make();
	cr_expect_eq(r->unreadable, 2);
	cr_expect_eq(r->faults.n, 1);
}

Test(report_read, the_ways_in_after_each_start_are_no_recoveries)
{
	put_begin(1);
	put_time("started", 0);
	put_start(0, 1, 500, 100);
	put_time("stopped", 5000);
	put_time("started", 60000);
	put_start(0, 3, 60700, 100);
	put_start(0, 4, 62000, 100); /* of one rank a new process is the whole job */
	put_time("stopped", 65000);
	const struct report *r = make();
	cr_assert_eq(r->recoveries.n, 3);
	cr_expect(r->recoveries.at[0].start);
	cr_expect(r->recoveries.at[1].start);
	cr_expect_not(r->recoveries.at[2].start);
	cr_expect_float_eq(r->goodput.elapsed, 10, 1e-9);
	cr_expect_float_eq(r->goodput.starting, 1.2, 1e-9);
}

Test(report_read, what_was_cut_off_ends_with_its_last_line_when_it_goes_on_later)
{
	put_begin(1);
	put_time("started", 0);
	put_start(0, 1, 500, 100);
	put("journal", "{\"event\":\"durable\",\"step\":10,\"epoch\":1,\"wall_ns\":%llu000000}", SINCE + 4000);
	put_time("started", 60000);
	put_start(0, 3, 60700, 100);
	put_time("stopped", 65000);
	const struct report *r = make();
	cr_expect_float_eq(r->goodput.elapsed, 4 + 5, 1e-9);
}

Test(report_read, both_parts_of_the_span_log_are_read)
{
	static const char *const names[] = {"spans", "spans.1"};
	put_begin(1);
	put_time("started", 0);
	for (unsigned i = 0; i < 2; i++)
		put(names[i],
		    "{\"span\":\"save\",\"node\":\"n%u\",\"target\":\"storage\",\"begun_ns\":%llu000000,\"durable_ns\":"
		    "5}",
		    i, SINCE + 2000 - 1000 * i);
	const struct report *r = make();
	cr_assert_eq(r->saves.n, 2);
	cr_expect_lt(r->saves.at[0].begun, r->saves.at[1].begun);
	cr_expect_str_eq(r->node, "n1", "the older part comes first");
}

Test(report_read, epochs_are_put_in_their_order)
{
	put_begin(2);
	put_time("started", 0);
	for (unsigned i = 0; i < 100; i++)
		put_start(i % 2, 1 + (i / 2 * 17) % 50, 500 + (i / 2 * 17) % 50, 1);
	const struct report *r = make();
	cr_assert_eq(r->recoveries.n, 50);
	for (unsigned i = 0; i < 50; i++)
		cr_expect(r->recoveries.at[i].epoch == i + 1 && r->recoveries.at[i].fresh == 3, "%u", i);
}

Test(report_read, a_recovery_that_was_cut_short_is_part_of_the_next)
{
	put_begin(2);
	put_time("started", 0);
	put_start(0, 1, 500, 100);
	put("spans",
	    "{\"span\":\"recovery\",\"node\":\"n1\",\"step\":40,\"epoch\":2,\"ended_ns\":%llu000000,\"state\":\"cut-"
	    "short\","
	    "\"reason\":\"rank 1 is lost: its process 7 has died\",\"passed_over\":\"step 42 epoch 1: damaged\"}",
	    SINCE + 2050);
	put_way_back(0, 3, 2300, 250, 3, "rank 0 joins", "the ring broke");
	const struct report *r = make();
	cr_assert_eq(r->recoveries.n, 2);
	cr_expect_eq(r->recoveries.at[1].epoch, 3);
	cr_expect_str_eq(r->recoveries.at[1].reason, "rank 1 is lost: its process 7 has died");
	cr_expect_str_eq(r->recoveries.at[1].passed_over, "step 42 epoch 1: damaged");
}

Test(report_read, the_daemon_s_parts_are_taken_where_it_knows_them_all)
{
	put_begin(2);
	put_time("started", 0);
	put_start(0, 1, 500, 100);
	put_way_back(0, 2, 2100, 90, 3, "rank 1 is lost: its process 7 has died", "the ring broke");
	put("spans",
	    "{\"schema\":1,\"span\":\"recovery\",\"node\":\"n1\",\"step\":40,\"step_epoch\":1,\"epoch\":2,\"ended_ns\":"
	    "%llu000000,"
	    "\"source\":\"memory\",\"reason\":\"rank 1 is lost: its process 7 has "
	    "died\",\"detect_ns\":4000000,\"decide_ns\":1000000,"
	    "\"gather_ns\":50000000,\"choose_ns\":2000000,\"fetch_ns\":3000000,\"load_ns\":8000000,\"first_step_ns\":"
	    "12000000,"
	    "\"state\":\"done\",\"passed_over\":null}",
	    SINCE + 2080);
	put_time("stopped", 5000);
	const struct report *r = make();
	cr_assert_eq(r->recoveries.n, 2);
	const struct report_recovery *one = &r->recoveries.at[1];
	cr_expect_str_eq(r->node, "n1");
	cr_expect(one->by_daemon);
	cr_expect_float_eq(one->parts[PART_GATHER], 50, 1e-9);
	cr_expect_eq(one->seen, (SINCE + 2010) * 1000000, "by the rank, before the daemon");
	cr_expect_eq(one->began, (SINCE + 2006) * 1000000);
	cr_expect_eq(one->back, (SINCE + 2100) * 1000000);
}

Test(report_read, text_is_cut_between_characters)
{
	char reason[REPORT_TEXT_MAX * 2 + 3] = "x";
	for (size_t i = 0; i < REPORT_TEXT_MAX; i++)
		memcpy(reason + 1 + 2 * i, "\xc3\xa4", 3);
	put_begin(2);
	put_time("started", 0);
	put_start(0, 1, 500, 100);
	put_way_back(0, 2, 2100, 90, 3, reason, "");
	const struct report *r = make();
	json_t *text = json_string(r->recoveries.at[1].reason);
	cr_expect(text, "UTF-8");
	cr_expect_gt(strlen(r->recoveries.at[1].reason), REPORT_TEXT_MAX - 4);
	json_decref(text);
}
