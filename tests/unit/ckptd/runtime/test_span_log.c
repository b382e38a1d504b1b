#include "runtime/span_log.h"

#include "base/cleanup.h"
#include "restore/recovery_log.h"
#include "save/save_stats.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char dir[SCRATCH_MAX], file[SCRATCH_MAX + 16];
static struct spanlog *spans;
static struct err err;

static void setup(void)
{
	scratch_new(dir);
	snprintf(file, sizeof(file), "%s/spans", dir);
	err = (struct err){{0}};
}

static void teardown(void)
{
	scratch_remove(dir);
}

TestSuite(spanlog, .init = setup, .fini = teardown);

static void start(uint64_t max)
{
	cr_assert_eq(spanlog_open(file, "n0", max, &spans, &err), 0, "%s", err.text);
}

static json_t *line_of(const char *name)
{
	json_error_t error;
	size_t len;
	char *text = scratch_read(dir, name, &len);
	json_t *j = json_loadb(text, strcspn(text, "\n"), JSON_REJECT_DUPLICATES, &error);
	cr_assert(j, "%s: %.200s", error.text, text);
	free(text);
	return j;
}

static size_t lines_of(const char *name)
{
	size_t len, n = 0;
	char *text = scratch_read(dir, name, &len);
	for (size_t i = 0; i < len; i++)
		n += text[i] == '\n';
	free(text);
	return n;
}

static const struct save_record failed = {.id = {7, 2},
					  .begun_wall_ns = 1700000000000000000,
					  .level = LEVEL_CAPTURED,
					  .to_storage = true,
					  .captured_ns = 5000,
					  .world = 2,
					  .late_rank = 1,
					  .late_phase = LATE_FENCE,
					  .rc = -EIO,
					  .error = "cannot write \"x\""};

Test(spanlog, a_save_is_one_line_with_null_for_what_was_not_reached)
{
	start(SPANLOG_FILE_MAX);
	spanlog_save(spans, "main", &failed);
	spanlog_close(spans);
	json_t *j = line_of("spans");
	cr_assert_str_eq(json_string_value(json_object_get(j, "span")), "save");
	cr_assert_str_eq(json_string_value(json_object_get(j, "level")), "captured");
	cr_assert_eq(json_integer_value(json_object_get(j, "begun_ns")), 1700000000000000000);
	cr_assert_eq(json_integer_value(json_object_get(j, "captured_ns")), 5000);
	cr_assert(json_is_null(json_object_get(j, "durable_ns")));
	cr_assert_eq(json_integer_value(json_object_get(j, "late_rank")), 1);
	cr_assert_str_eq(json_string_value(json_object_get(j, "error")), "cannot write \"x\"");
	json_decref(j);
}

Test(spanlog, a_recovery_tells_what_was_passed_over)
{
	struct recovery_record r = {.id = {40, 1},
				    .epoch = 2,
				    .world = 2,
				    .source = 3,
				    .raised = true,
				    .gather_ns = 9,
				    .choose_ns = 4,
				    .fetch_ns = 7,
				    .load_ns = 3,
				    .first_step_ns = 2,
				    .state = RECOVERY_DONE,
				    .reason = "rank 1 is lost",
				    .passed_over = "step 50: damaged"};
	start(SPANLOG_FILE_MAX);
	spanlog_recovery(spans, "main", &r);
	spanlog_close(spans);
	json_t *j = line_of("spans");
	cr_assert_str_eq(json_string_value(json_object_get(j, "source")), "storage");
	cr_assert(json_is_null(json_object_get(j, "detect_ns")));
	cr_assert(json_is_null(json_object_get(j, "decide_ns")), "nobody was lost here");
	cr_assert_eq(json_integer_value(json_object_get(j, "gather_ns")), 9);
	cr_assert_eq(json_integer_value(json_object_get(j, "restore_ns")), 11);
	cr_assert_eq(json_integer_value(json_object_get(j, "total_ns")), 25);
	cr_assert_str_eq(json_string_value(json_object_get(j, "state")), "done");
	cr_assert_str_eq(json_string_value(json_object_get(j, "passed_over")), "step 50: damaged");
	json_decref(j);
}

Test(spanlog, lines_are_added_to_a_file_that_is_there)
{
	for (int i = 0; i < 2; i++) {
		start(SPANLOG_FILE_MAX);
		spanlog_save(spans, "main", &failed);
		spanlog_close(spans);
	}
	cr_assert_eq(lines_of("spans"), 2u);
}

/* Its writer was killed in the middle of a line. */
Test(spanlog, a_line_that_was_cut_does_not_spoil_the_next)
{
	scratch_write(dir, "spans", "{\"s", 3);
	start(SPANLOG_FILE_MAX);
	spanlog_save(spans, "main", &failed);
	spanlog_close(spans);
	size_t size;
	AUTO_FREE char *text = scratch_read(dir, "spans", &size);
	cr_assert_eq(lines_of("spans"), 2u);
	cr_assert_eq(memcmp(text, "{\"s\n{\"", 6), 0);
}

/* A full disk keeps no daemon from starting, nor spoils what is written when there is room again. */
Test(spanlog, what_a_full_disk_has_cut_does_not_spoil_the_next)
{
	struct rlimit room, full;
	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &room), 0);
	full = (struct rlimit){10, room.rlim_max};
	signal(SIGXFSZ, SIG_IGN);
	start(SPANLOG_FILE_MAX);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &full), 0);
	spanlog_save(spans, "main", &failed);
	spanlog_close(spans);
	cr_assert_eq(scratch_size(dir, "spans"), 10u);
	start(SPANLOG_FILE_MAX);
	spanlog_close(spans);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &room), 0);
	start(SPANLOG_FILE_MAX);
	spanlog_save(spans, "main", &failed);
	spanlog_close(spans);
	size_t size;
	AUTO_FREE char *text = scratch_read(dir, "spans", &size);
	cr_assert_eq(lines_of("spans"), 2u);
	cr_assert_eq(memcmp(text + 10, "\n{\"", 3), 0);
}

Test(spanlog, a_full_file_gives_way_to_a_new_one_and_only_one_is_kept)
{
	enum { LINES = 40, MAX = 2000 };
	for (int i = 0; i < LINES; i++) {
		start(MAX); /* each is written by itself */
		spanlog_save(spans, "main", &failed);
		spanlog_close(spans);
	}
	cr_assert_leq(scratch_size(dir, "spans"), (size_t)MAX);
	cr_assert_leq(scratch_size(dir, "spans.1"), (size_t)MAX);
	cr_assert_gt(lines_of("spans.1"), 1u);
}

Test(spanlog, a_path_that_cannot_be_opened_is_told_at_once)
{
	snprintf(file, sizeof(file), "%s/none/x", dir);
	cr_assert_eq(spanlog_open(file, "n0", 1, &spans, &err), -ENOENT);
	cr_assert(strstr(err.text, "--span-log") && strstr(err.text, "none/x"));
	cr_assert_eq(spanlog_open("/dev/null", "n0", 1, &spans, &err), -EINVAL);
	cr_assert(strstr(err.text, "no file"));
}

/* Whether somebody reads there or not. */
Test(spanlog, a_fifo_is_no_file_and_nobody_waits_for_its_reader)
{
	cr_assert_eq(mkfifo(file, 0600), 0);
	cr_assert_eq(spanlog_open(file, "n0", 1, &spans, &err), -EINVAL);
	cr_assert(strstr(err.text, "no file"), "%s", err.text);
	AUTO_CLOSE int reader = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	cr_assert_geq(reader, 0);
	cr_assert_eq(spanlog_open(file, "n0", 1, &spans, &err), -EINVAL);
	cr_assert(strstr(err.text, "no file"), "%s", err.text);
}

static unsigned long dropped_of(const char *text)
{
	unsigned long n = 0;
	for (const char *at = text; (at = strstr(at, "\"span\":\"dropped\",\"count\":")); at++)
		n += strtoul(at + strlen("\"span\":\"dropped\",\"count\":"), NULL, 10);
	return n;
}

/* However fast they come, each line is there or counted as dropped, and none is cut. */
Test(spanlog, what_cannot_be_taken_is_dropped_and_the_log_says_so)
{
	enum { BURST = 20000 };
	size_t len, saves = 0;
	start(SPANLOG_FILE_MAX);
	for (int i = 0; i < BURST; i++)
		spanlog_save(spans, "main", &failed);
	spanlog_close(spans);
	start(SPANLOG_FILE_MAX);
	spanlog_close(spans);
	char *text = scratch_read(dir, "spans", &len);
	/* Not strstr: the sanitizer measures the whole rest of the text at each call. */
	for (const char *at = text; (at = memmem(at, (size_t)(text + len - at), "\"span\":\"save\"", 13)); at++)
		saves++;
	cr_assert(len && text[len - 1] == '\n');
	cr_assert_leq(saves + dropped_of(text), (size_t)BURST);
	cr_assert_gt(saves, (size_t)SPANLOG_QUEUE_MAX / 1000);
	free(text);
}
