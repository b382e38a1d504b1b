#include "base/transitions.h"

#include <criterion/criterion.h>
#include <signal.h>

enum { GREEN, YELLOW, RED, N };
static const char *const names[N] = {"green", "yellow", "red"};
static const uint32_t next[N] = {[GREEN] = 1 << YELLOW, [YELLOW] = 1 << RED, [RED] = 1 << GREEN | 1 << RED};
static const struct transitions light = {.machine = "light", .names = names, .next = next, .n = N};

Test(transitions, what_may_follow_is_let_through)
{
	transitions_check(&light, GREEN, YELLOW);
	transitions_check(&light, YELLOW, RED);
	transitions_check(&light, RED, GREEN);
	transitions_check(&light, RED, RED);
}

Test(transitions, what_may_not_follow_ends_the_program, .signal = SIGABRT)
{
	transitions_check(&light, GREEN, RED);
}

Test(transitions, a_state_is_not_followed_by_itself_unless_the_table_says_so, .signal = SIGABRT)
{
	transitions_check(&light, YELLOW, YELLOW);
}

Test(transitions, what_is_no_state_follows_none, .signal = SIGABRT)
{
	transitions_check(&light, RED, N);
}

Test(transitions, states_have_names)
{
	cr_expect_str_eq(transitions_name(&light, YELLOW), "yellow");
	cr_expect_str_eq(transitions_name(&light, N), "?");
}
