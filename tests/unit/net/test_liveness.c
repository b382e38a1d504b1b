#include "cluster/link/liveness.h"

#include "base/clock.h"

#include <criterion/criterion.h>

#define MS CLOCK_NS_PER_MS

enum { LIMIT_MS = 1000, TICK_MS = 20, QUARTER_MS = LIMIT_MS / 4 };

static struct liveness l;
static uint64_t now, begun;

static void setup(void)
{
	begun = now = 5000 * MS;
	liveness_begin(&l, LIMIT_MS * MS, TICK_MS * MS, now);
}

TestSuite(liveness, .init = setup);

/* The first thing that is to be done, looking as often as is asked for; after `ms` NOTHING. */
static enum liveness_does next(unsigned ms)
{
	uint64_t end = now + ms * MS;
	for (;;) {
		enum liveness_does does = liveness_look(&l, now);
		uint64_t due = liveness_due(&l, now);
		if (does)
			return does;
		if (due > end) {
			now = end;
			return LIVENESS_NOTHING;
		}
		cr_assert(due > now, "looked at without end");
		now = due;
	}
}

static unsigned since(uint64_t then)
{
	return (unsigned)((now - then) / MS);
}

/* Questions in so much time, each of which is answered at once. */
static unsigned questions(unsigned ms)
{
	uint64_t end = now + ms * MS;
	unsigned n = 0;
	while (next((unsigned)((end - now) / MS)) == LIVENESS_ASK) {
		n++;
		liveness_heard(&l, false, now);
	}
	return n;
}

/* It is not used any more, nor was it a moment ago. */
static void rest(void)
{
	questions(1000 * LIVENESS_USE_S + LIMIT_MS);
	begun = now;
}

Test(liveness, a_node_is_silent_when_an_answer_is_missing_for_a_quarter_of_the_limit)
{
	liveness_use(&l, now);
	while (liveness_look(&l, now) != LIVENESS_ASK)
		now += TICK_MS * MS;
	cr_expect_not(liveness_silent(&l), "it has just been asked");
	for (uint64_t asked = now; now <= asked + QUARTER_MS * MS; now += TICK_MS * MS)
		cr_expect_eq(liveness_look(&l, now), LIVENESS_NOTHING);
	cr_expect_eq(liveness_look(&l, now), LIVENESS_NOTHING);
	cr_expect(liveness_silent(&l));
	liveness_heard(&l, false, now);
	cr_expect_not(liveness_silent(&l));
}

Test(liveness, a_session_that_is_used_is_asked_four_times_in_the_limit)
{
	liveness_use(&l, now);
	cr_expect_eq(questions(LIMIT_MS), LIVENESS_ASKS);
	unsigned n = questions(1000 * LIVENESS_USE_S - LIMIT_MS);
	cr_expect_geq(n + 1, (1000 * LIVENESS_USE_S - LIMIT_MS) / QUARTER_MS, "%u questions: one falls on the end", n);
}

/* The other end may not have heard that it began. */
Test(liveness, a_session_that_begins_is_asked_before_it_rests)
{
	unsigned n = questions(60000);
	cr_expect(n >= 1 && n <= LIVENESS_ASKS, "%u questions", n);
}

Test(liveness, one_that_is_not_is_asked_nothing_and_never_looked_at)
{
	rest();
	cr_expect_eq(questions(3600000), 0);
	cr_expect_eq(liveness_due(&l, now), LIVENESS_NEVER);
}

Test(liveness, one_that_is_looked_after_is_asked_for_ever)
{
	liveness_watch(&l, true);
	rest();
	unsigned n = questions(10 * LIMIT_MS);
	cr_expect(n >= 10 * LIVENESS_ASKS && n <= 11 * LIVENESS_ASKS, "%u questions", n);
}

Test(liveness, whatever_is_heard_saves_a_question)
{
	for (unsigned i = 0; i < 100; i++) {
		cr_assert_eq(next(QUARTER_MS - TICK_MS - 1), LIVENESS_NOTHING);
		liveness_heard(&l, false, now);
	}
}

Test(liveness, of_two_who_was_asked_leaves_the_asking_to_the_other)
{
	liveness_watch(&l, true);
	struct liveness other = l;
	unsigned asked = 0, answered = 0;
	for (unsigned i = 0; i < 100; i++) {
		if (liveness_due(&other, now) <= now && liveness_look(&other, now) == LIVENESS_ASK) {
			answered++;
			liveness_heard(&l, true, now);
			liveness_heard(&other, false, now);
		}
		if (next(TICK_MS) == LIVENESS_ASK) {
			asked++;
			liveness_heard(&other, true, now);
			liveness_heard(&l, false, now);
		}
	}
	cr_expect(asked + answered >= 100 * TICK_MS / QUARTER_MS, "%u and %u questions", asked, answered);
	cr_expect(!asked || !answered, "%u and %u questions", asked, answered);
}

Test(liveness, who_does_not_answer_is_doubted_once_and_lost_at_the_limit)
{
	liveness_watch(&l, true);
	cr_expect_eq(next(LIMIT_MS), LIVENESS_ASK);
	cr_expect_eq(since(begun), QUARTER_MS);
	cr_expect_eq(next(LIMIT_MS), LIVENESS_DOUBT);
	cr_expect_leq(since(begun), 2 * QUARTER_MS + TICK_MS);
	cr_expect_eq(next(LIMIT_MS), LIVENESS_LOST);
	cr_expect_geq(since(begun), LIMIT_MS - TICK_MS);
	cr_expect_leq(since(begun), LIMIT_MS + TICK_MS);
}

Test(liveness, who_leaves_the_asking_to_another_one_finds_a_loss_within_the_limit)
{
	liveness_watch(&l, true);
	cr_expect_eq(next(LIMIT_MS), LIVENESS_ASK);
	liveness_heard(&l, true, now);
	begun = now;
	cr_expect_eq(next(LIMIT_MS), LIVENESS_ASK);
	cr_expect_eq(since(begun), QUARTER_MS + TICK_MS);
	cr_expect_eq(next(LIMIT_MS), LIVENESS_DOUBT);
	cr_expect_eq(next(LIMIT_MS), LIVENESS_LOST);
	cr_expect_geq(since(begun), LIMIT_MS - TICK_MS);
	cr_expect_leq(since(begun), LIMIT_MS + TICK_MS);
}

Test(liveness, who_looks_after_nobody_spreads_no_doubt)
{
	cr_expect_eq(next(LIMIT_MS), LIVENESS_ASK);
	cr_expect_eq(next(2 * LIMIT_MS), LIVENESS_LOST);
	cr_expect_leq(since(begun), LIMIT_MS + TICK_MS);
}

Test(liveness, an_answer_ends_the_doubt_and_the_next_silence_is_told_anew)
{
	liveness_watch(&l, true);
	for (unsigned i = 0; i < 3; i++) {
		cr_expect_eq(next(LIMIT_MS), LIVENESS_ASK);
		cr_expect_eq(next(LIMIT_MS), LIVENESS_DOUBT);
		liveness_heard(&l, false, now);
	}
	cr_expect_eq(questions(LIMIT_MS), LIVENESS_ASKS);
}

Test(liveness, the_doubt_of_another_one_is_a_question_and_no_more)
{
	rest();
	liveness_doubt(&l, 7, now);
	cr_expect_eq(next(LIMIT_MS), LIVENESS_ASK);
	cr_expect_eq(now, begun);
	liveness_heard(&l, false, now);
	cr_expect_eq(questions(3600000), 0);
}

/* So many others have doubts, again and again: milliseconds until it is lost. */
static unsigned lost_after(unsigned others)
{
	rest();
	for (unsigned i = 0; i < 3 * others; i++)
		liveness_doubt(&l, i % others, now);
	cr_expect_eq(next(LIMIT_MS), LIVENESS_ASK);
	cr_expect_eq(next(LIMIT_MS), LIVENESS_LOST);
	return since(begun);
}

Test(liveness, whom_one_other_doubts_has_as_long_as_for_any_question)
{
	unsigned ms = lost_after(1);
	cr_expect(ms >= 3 * QUARTER_MS && ms <= 3 * QUARTER_MS + TICK_MS, "%u", ms);
}

Test(liveness, whom_two_others_doubt_has_a_quarter_of_the_limit_less)
{
	unsigned ms = lost_after(2);
	cr_expect(ms >= 2 * QUARTER_MS && ms <= 2 * QUARTER_MS + TICK_MS, "%u", ms);
}

Test(liveness, however_many_doubt_it_has_time_to_answer)
{
	unsigned ms = lost_after(50);
	cr_expect(ms >= 2 * QUARTER_MS && ms <= 2 * QUARTER_MS + TICK_MS, "%u", ms);
}

Test(liveness, doubts_of_an_earlier_silence_count_no_more)
{
	rest();
	liveness_doubt(&l, 1, now);
	liveness_heard(&l, false, now);
	liveness_doubt(&l, 2, now);
	begun = now;
	cr_expect_eq(next(LIMIT_MS), LIVENESS_ASK);
	cr_expect_eq(next(LIMIT_MS), LIVENESS_LOST);
	cr_expect_geq(since(begun), 3 * QUARTER_MS);
}

Test(liveness, who_was_asked_by_other_words_is_not_asked_again)
{
	rest();
	liveness_ask(&l, now);
	cr_expect_eq(next(LIMIT_MS), LIVENESS_LOST);
	cr_expect_geq(since(begun), 3 * QUARTER_MS);
}

Test(liveness, use_after_a_long_rest_leaves_time_to_say_something)
{
	rest();
	now += 3600000 * MS;
	begun = now;
	liveness_use(&l, now);
	cr_expect_eq(next(LIMIT_MS), LIVENESS_ASK);
	cr_expect_eq(since(begun), QUARTER_MS);
}

Test(liveness, who_does_not_run_himself_loses_nobody)
{
	cr_expect_eq(next(LIMIT_MS), LIVENESS_ASK);
	now += 60000 * MS;
	cr_expect_eq(liveness_look(&l, now), LIVENESS_NOTHING);
	begun = now;
	cr_expect_eq(next(LIMIT_MS), LIVENESS_LOST);
	cr_expect_geq(since(begun), LIMIT_MS / 2);
}
