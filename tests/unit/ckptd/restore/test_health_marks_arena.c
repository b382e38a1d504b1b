#include "restore/health_marks_arena.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct verdict_kept said = {
	.id = {.step = 7, .epoch = 2}, .unhealthy = true, .given_at = 1234, .reason = "the loss is nan"};

static bool recalled(const struct arena_verdict *at)
{
	struct verdict_kept is;
	return verdict_recall(at, &is);
}

Test(verdicts_kept, what_was_kept_is_recalled)
{
	struct arena_verdict at = {0};
	struct verdict_kept is;
	cr_expect_not(recalled(&at), "memory that nobody has written to");
	verdict_keep(&at, &said);
	cr_assert(verdict_recall(&at, &is));
	cr_expect_eq(step_compare(is.id, said.id), 0);
	cr_expect(is.unhealthy);
	cr_expect_eq(is.given_at, said.given_at);
	cr_expect_str_eq(is.reason, said.reason);
	verdict_keep(&at, &(struct verdict_kept){0});
	cr_expect_not(recalled(&at), "the place is unused again");
}

Test(verdicts_kept, who_dies_while_it_is_written_leaves_nothing_and_the_next_can_write)
{
	struct arena_verdict at = {0};
	verdict_keep(&at, &said);
	at.seq |= 1;
	cr_expect_not(recalled(&at));
	verdict_keep(&at, &said);
	cr_expect(recalled(&at));
}

Test(verdicts_kept, what_a_rank_has_scribbled_there_does_not_count)
{
	struct arena_verdict good = {0}, at;
	verdict_keep(&good, &said);
	at = good, at.step = STEP_MAX + 1;
	cr_expect_not(recalled(&at));
	at = good, at.unhealthy = 2;
	cr_expect_not(recalled(&at));
	at = good, at.given_at = UINT64_MAX;
	cr_expect_not(recalled(&at));
	at = good, at.given_at = INT64_MAX;
	cr_expect_not(recalled(&at), "what is said after it could not be written");
	at = good, memset(at.reason, 'x', sizeof(at.reason));
	cr_expect_not(recalled(&at));
	at = good, memset(at.reason, 'x', sizeof(at.reason) - 1);
	cr_expect(recalled(&at));
}
