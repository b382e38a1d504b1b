#include "cluster/link/silence.h"

#include <criterion/criterion.h>

#define MS 1000000ull

enum { LIMIT_MS = 1000, TICK_MS = 20 };

static struct silence s;
static uint64_t now;

static void setup(void)
{
	now = 5000 * MS;
	silence_begin(&s, LIMIT_MS * MS, TICK_MS * MS, now);
}

TestSuite(silence, .init = setup);

static bool look_after(uint64_t ms)
{
	now += ms * MS;
	return silence_look(&s, now);
}

/* Milliseconds of looks that far apart until the node counts as silent. */
static unsigned lasts(unsigned ms)
{
	unsigned all = 0;
	while (all < 100 * LIMIT_MS) {
		all += ms;
		if (look_after(ms))
			break;
	}
	return all;
}

Test(silence, who_runs_as_he_should_waits_for_the_limit)
{
	cr_expect_eq(lasts(TICK_MS), LIMIT_MS);
}

Test(silence, looks_that_are_somewhat_late_count_in_full)
{
	cr_expect_eq(lasts(100), LIMIT_MS);
}

Test(silence, who_did_not_run_himself_does_not_blame_the_others)
{
	cr_expect(!look_after(60000), "this process was stopped for a minute");
	cr_expect_eq(lasts(TICK_MS), LIMIT_MS - 100, "then it listens");
}

Test(silence, who_is_starved_all_the_time_takes_longer)
{
	cr_expect_eq(lasts(500), 10 * 500);
}

/* Looking when it is due, and so much later: when that part of the limit, or the limit, is seen. */
static uint64_t seen_after(unsigned part_ms, unsigned late_ms)
{
	uint64_t begun = now;
	do
		now = silence_due(&s, part_ms * MS) + late_ms * MS;
	while (!silence_look(&s, now) && s.silent < part_ms * MS);
	return (now - begun) / MS;
}

Test(silence, looks_that_are_due_see_a_part_and_the_limit_when_they_are_reached)
{
	cr_expect_eq(seen_after(250, 0), 250);
	cr_expect_eq(seen_after(LIMIT_MS, 0), LIMIT_MS - 250);
}

Test(silence, due_looks_may_be_somewhat_late)
{
	uint64_t ms = seen_after(LIMIT_MS, 10);
	cr_expect(ms >= LIMIT_MS && ms <= LIMIT_MS + 10, "%lu ms", ms);
}

Test(silence, few_due_looks_are_enough)
{
	unsigned n = 0;
	do
		n++;
	while (!silence_look(&s, now = silence_due(&s, LIMIT_MS / 4 * MS)));
	cr_expect_leq(n, 2 * 10 + 1, "%u looks", n);
}

Test(silence, a_limit_of_a_few_looks_is_kept)
{
	silence_begin(&s, 60 * MS, TICK_MS * MS, now);
	cr_expect_eq(lasts(TICK_MS), 60);
}
