#include "save/health_marks_arena.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct kept_mark said = {
	.id = {.step = 7, .epoch = 2}, .unhealthy = true, .given_at = 1234, .reason = "the loss is nan"};

static bool recalled(const struct arena_health_mark *at)
{
	struct kept_mark is;
	return mark_recall(at, &is);
}

Test(health_marks_arena, what_was_kept_is_recalled)
{
	struct arena_health_mark at = {0};
	struct kept_mark is;
	cr_expect_not(recalled(&at), "memory that nobody has written to");
	mark_keep(&at, &said);
	cr_assert(mark_recall(&at, &is));
	cr_expect_eq(step_compare(is.id, said.id), 0);
	cr_expect(is.unhealthy);
	cr_expect_eq(is.given_at, said.given_at);
	cr_expect_str_eq(is.reason, said.reason);
	mark_keep(&at, &(struct kept_mark){0});
	cr_expect_not(recalled(&at), "the place is unused again");
}

Test(health_marks_arena, who_dies_while_it_is_written_leaves_nothing_and_the_next_can_write)
{
	struct arena_health_mark at = {0};
	mark_keep(&at, &said);
	at.seq |= 1;
	cr_expect_not(recalled(&at));
	mark_keep(&at, &said);
	cr_expect(recalled(&at));
}

Test(health_marks_arena, what_a_rank_has_scribbled_there_does_not_count)
{
	struct arena_health_mark good = {0}, at;
	mark_keep(&good, &said);
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
