/* When ranks are started: cli/launcher/launch_ranks.c. */
#include "launcher/launch.h"

#include "base/clock.h"

#include <criterion/criterion.h>

#define S CLOCK_NS_PER_S

static struct launch launch;
static struct launch_rank rank;
static char *argv[] = {(char *)"true", NULL};

/* A rank is to be started again, at 101 s; the daemon died at 100 s, and has given an arena to hold. */
static void setup(void)
{
	launch = (struct launch){.ranks = &rank, .nranks = 1, .options = {.argv = argv, .processes = 1, .nodes = 1}};
	launch.options.job = "main";
	held_init(&launch.held);
	launch.held.count = 1;
	launch.link.lost_ns = 100 * S;
	ranks_init(&rank, 0);
	rank.start_at = 101 * S;
}

TestSuite(launch_ranks, .init = setup);

static bool starts(uint64_t now)
{
	ranks_tick(&launch, now);
	if (rank.stand != RANK_RUNNING)
		return false;
	proc_reap(&rank.proc, rank.proc.pid);
	rank.stand = RANK_WAITING;
	return true;
}

Test(launch_ranks, no_rank_comes_before_the_arenas_that_are_held_for_a_daemon)
{
	cr_expect(!starts(102 * S));
	launch.link.state = UPLINK_GREETING;
	cr_expect(!starts(103 * S));
	launch.link.state = UPLINK_UP; /* and the arenas are on their way */
	cr_expect_eq(ranks_next(&launch), 101 * S);
	cr_expect(starts(103 * S));
}

Test(launch_ranks, a_daemon_that_does_not_come_back_is_not_waited_for_for_ever)
{
	cr_expect_eq(ranks_next(&launch), 130 * S);
	cr_expect(!starts(129 * S));
	cr_expect(starts(130 * S));
	rank.start_at = 140 * S;
	cr_expect_eq(ranks_next(&launch), 140 * S);
}

Test(launch_ranks, where_nothing_is_held_or_no_daemon_comes_none_is_waited_for)
{
	launch.held.count = 0;
	cr_expect_eq(ranks_next(&launch), 101 * S);
	cr_expect(starts(101 * S));
	launch.held.count = 1;
	launch.keeper.given_up = true;
	cr_expect_eq(ranks_next(&launch), 101 * S);
	cr_expect(starts(101 * S));
}
