#include "plan/plan_spans.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

static char folder[SCRATCH_MAX], path[SCRATCH_MAX + 8];
static struct plan_spans spans;
static struct err err;

static void setup(void)
{
	scratch_new(folder);
	snprintf(path, sizeof(path), "%s/spans", folder);
}

static void teardown(void)
{
	scratch_remove(folder);
}

TestSuite(plan_spans, .init = setup, .fini = teardown);

static int read(const char *text)
{
	const char *paths[] = {path};
	FILE *f = fopen(path, "w");
	fputs(text, f);
	fclose(f);
	return plan_spans_read(paths, 1, &spans, &err);
}

#define SAVE(begun, captured, replicated)                                                                              \
	"{\"schema\":1,\"span\":\"save\",\"begun_ns\":" begun ",\"captured_ns\":" captured                             \
	",\"replicated_ns\":" replicated ",\"write_ns\":2000000000,\"captured_bytes\":1000000}\n"
#define RECOVERY(ended, reason)                                                                                        \
	"{\"schema\":1,\"span\":\"recovery\",\"ended_ns\":" ended ",\"reason\":\"" reason                              \
	"\",\"detect_ns\":1000000000,\"restore_ns\":500000000,\"total_ns\":4500000000}\n"

Test(plan_spans, medians_of_what_took_place)
{
	cr_assert_eq(read(SAVE("1000000000000", "10000000", "30000000") SAVE("1100000000000", "20000000", "null")
				  SAVE("1200000000000", "90000000", "null") RECOVERY("1000000000000", "start")
					  RECOVERY("1400000000000", "rank 1 is lost")),
		     0, "%s", err.text);
	cr_expect_eq(spans.saves, 3);
	cr_expect_eq(spans.recoveries, 1, "the start is none");
	cr_expect_float_eq(spans.capture, 0.02, 1e-9);
	cr_expect_float_eq(spans.replicate, 0.02, 1e-9);
	cr_expect_float_eq(spans.write, 2, 1e-9);
	cr_expect_float_eq(spans.bytes, 1e6, 1e-3);
	cr_expect_float_eq(spans.detect, 1, 1e-9);
	cr_expect_float_eq(spans.restart, 3, 1e-9, "what is neither seeing it nor the way of the state");
	cr_expect_float_eq(spans.seconds, 400, 1e-6);
	cr_expect_float_eq(spans.mtbf, 400, 1e-6);
}

Test(plan_spans, a_line_that_is_still_written_ends_the_file)
{
	cr_assert_eq(read(SAVE("1", "2", "3") "{\"span\":\"save\",\"begun"), 0);
	cr_expect_eq(spans.saves, 1);
	cr_expect(isinf(spans.mtbf));
}

Test(plan_spans, what_holds_no_save_is_refused)
{
	const char *none[] = {"/nowhere/spans"};
	cr_expect_eq(read(RECOVERY("5", "start")), -ENODATA);
	cr_expect_eq(plan_spans_read(none, 1, &spans, &err), -ENOENT);
	cr_expect(*err.text);
	cr_expect_eq(read("not JSON\n[1,2]\n"), -ENODATA);
}
