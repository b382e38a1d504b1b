#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "loop/progress.h"
#include "loop/report.h"

struct fixture {
	char file[64], text[8192];
	struct report report;
};

static void open_fixture(struct fixture *f)
{
	snprintf(f->file, sizeof(f->file), "/tmp/ckpt-train-report.%d", (int)getpid());
	cr_assert_eq(report_open(&f->report, f->file), 0);
	f->report.rank = 3;
}

/* Closes, reads, removes. */
static void read_fixture(struct fixture *f)
{
	FILE *file = fopen(f->file, "r");

	report_close(&f->report);
	cr_assert_not_null(file);
	f->text[fread(f->text, 1, sizeof(f->text) - 1, file)] = '\0';
	fclose(file);
	unlink(f->file);
}

static void assert_has(const struct fixture *f, const char *part)
{
	cr_assert_not_null(strstr(f->text, part), "no %s in %s", part, f->text);
}

Test(report, recovery_has_all_spans)
{
	struct fixture f;
	struct entry e = {
		.at = {1000000, 3000000, 3500000, 4000000, 10000000, 11000000, 15000000, 35000000},
		.epoch = 2,
		.lost_step = 43,
		.restored = {.step = 40, .source = CKPT_FROM_MEMORY, .why = "own \"memory\"\nis damaged"},
		.reason = "rank 1 is lost",
		.left = "the loss of step 43 is nan",
	};

	open_fixture(&f);
	report_entry(&f.report, &e);
	read_fixture(&f);
	assert_has(&f, "{\"event\":\"recovery\",\"rank\":3,\"pid\":");
	assert_has(&f, "\"epoch\":2,\"step\":40,\"source\":\"memory\",\"steps_lost\":3,\"detect_ms\":2.000,\"decide_"
		       "ms\":0.500,"
		       "\"join_ms\":6.000,\"connect_ms\":1.000,\"restore_ms\":4.000,\"first_step_ms\":20.000,"
		       "\"total_ms\":32.000,\"noticed_ns\":3000000,\"reason\":\"rank 1 is lost\","
		       "\"left\":\"the loss of step 43 is nan\","
		       "\"passed_over\":\"own \\\"memory\\\" is damaged\"}\n");
}

Test(report, first_entry_of_a_process_has_lost_nothing)
{
	struct fixture f;
	struct entry e = {.at = {.joining = 1000000, .joined = 2000000, .connected = 2000000, .restored = 4000000},
			  .epoch = 1,
			  .reason = "",
			  .left = ""};

	open_fixture(&f);
	report_entry(&f.report, &e);
	read_fixture(&f);
	assert_has(&f, "\"event\":\"start\"");
	assert_has(&f,
		   "\"source\":\"none\",\"steps_lost\":null,\"detect_ms\":null,\"decide_ms\":null,\"join_ms\":1.000,");
	assert_has(&f, "\"first_step_ms\":null,\"total_ms\":3.000,\"noticed_ns\":null");
}

Test(report, each_line_says_when_it_was_written)
{
	struct fixture f;
	uint64_t before = clock_wall(), at = 0; /* time() may be behind by as long as the kernel's clock ticks */
	const char *found;

	open_fixture(&f);
	report_save(&f.report, &(struct save_stall){45, CKPT_STORAGE, 0.25, 1.5, "ok"});
	read_fixture(&f);
	found = strstr(f.text, "\"at_ns\":");
	cr_assert_not_null(found);
	cr_assert_eq(sscanf(found, "\"at_ns\":%" SCNu64, &at), 1);
	cr_assert_geq(at, before);
	cr_assert_leq(at, clock_wall());
}

Test(report, lines_are_appended)
{
	struct fixture f;
	struct save_stall stall = {45, CKPT_STORAGE, 0.25, 1.5, "busy"};

	open_fixture(&f);
	report_save(&f.report, &stall);
	report_close(&f.report);
	open_fixture(&f);
	report_end(&f.report,
		   &(struct run_end){.step = 200, .loss = 2.5, .fingerprint = 0xabc, .wait_ms = 7, .step_ms = 4.25});
	read_fixture(&f);
	assert_has(&f,
		   "\"step\":45,\"target\":\"storage\",\"begin_ms\":0.250,\"fence_ms\":1.500,\"result\":\"busy\"}\n");
	assert_has(&f, "\"event\":\"end\",\"rank\":3,");
	assert_has(&f,
		   "\"step\":200,\"loss\":2.5,\"params\":\"0000000000000abc\",\"wait_ms\":7.000,\"step_ms\":4.250}\n");
}

Test(report, without_a_file_nothing_is_written)
{
	struct report r;

	cr_assert_eq(report_open(&r, NULL), 0);
	report_end(&r, &(struct run_end){.step = 1});
	report_close(&r);
	cr_assert_eq(report_open(&r, "/nowhere/report"), -ENOENT);
}

Test(progress, one_line_per_second)
{
	struct saver saver = {.in_memory = 45};
	struct progress p;
	char line[PROGRESS_SIZE];

	progress_start(&p, true, 40);
	cr_assert_eq(progress_line(&p, p.shown_ns + 999999999, 41, 200, 2, 512, &saver, line), 0);
	cr_assert_eq(progress_line(&p, p.shown_ns + 2000000000, 50, 200, 2.5, 512, &saver, line), 1);
	cr_assert_str_eq(line, "step 50/200  loss 2.5000  2560 tokens/s  saved: memory 45, storage -");
	saver.on_storage = 50;
	saver.busy = 2;
	cr_assert_eq(progress_line(&p, p.shown_ns + 500000000, 51, 200, 2.5, 512, &saver, line), 0);
	cr_assert_eq(progress_line(&p, p.shown_ns + 1000000000, 52, 200, 2.5, 512, &saver, line), 1);
	cr_assert_str_eq(line,
			 "step 52/200  loss 2.5000  1024 tokens/s  saved: memory 45, storage 50  skipped 2, failed 0");
	progress_start(&p, false, 0);
	cr_assert_eq(progress_line(&p, p.shown_ns + 2000000000, 1, 2, 1, 1, &saver, line), 0);
}
