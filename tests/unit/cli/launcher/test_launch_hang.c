#include "launcher/launch.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define S CLOCK_NS_PER_S

static struct launch launch;
static struct launch_rank ranks[2];
static struct arena_head *head, *second;

/* A rank that has given its last heartbeat at 100 s. */
static struct arena_head *add(uint32_t rank)
{
	struct wire_arena_of m = {.rank = rank, .size = ARENA_HEAD};
	struct err err = {""};
	int fd = memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	cr_assert_eq(ftruncate(fd, ARENA_HEAD), 0);
	struct arena_head *made = mmap(NULL, sizeof(*made), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert_neq(made, MAP_FAILED);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	cr_assert_eq(held_take(&launch.held, &m, fd, &err), 0, "%s", err.text);
	ranks[rank] = (struct launch_rank){.id = rank, .stand = RANK_RUNNING};
	ranks[rank].proc.started_ns = 90 * S;
	made->flight.beat_ns = 100 * S;
	return made;
}

/* A job of one rank, on one node. */
static void setup(void)
{
	launch = (struct launch){.ranks = ranks, .options = {.hang_ns = 8 * S, .nodes = 1}, .nranks = 1};
	launch.link.heard_ns = UINT64_MAX; /* its daemon answers */
	held_init(&launch.held);
	head = add(0);
	second = NULL;
}

static void teardown(void)
{
	munmap(head, sizeof(*head));
	if (second)
		munmap(second, sizeof(*second));
	held_free(&launch.held);
	sink_free(&launch.err);
}

TestSuite(launch_hang, .init = setup, .fini = teardown);

Test(launch_hang, a_rank_hangs_so_long_after_its_last_heartbeat)
{
	cr_expect_eq(hang_next(&launch), 108 * S);
	launch.options.hang_ns = 0;
	cr_expect_eq(hang_next(&launch), UINT64_MAX);
}

Test(launch_hang, while_a_node_is_not_heard_no_rank_hangs_and_the_time_begins_anew)
{
	head->apart_ns = 130 * S;
	cr_expect_eq(hang_next(&launch), 138 * S);
	head->flight.beat_ns = 131 * S;
	cr_expect_eq(hang_next(&launch), 139 * S);
}

/* With nothing to tell it from one that waits for a rank of another node, or in no collective. */
static void of_two_nodes(bool in_collective)
{
	launch.options.nodes = 2;
	head->flight.coll_since_ns = 99 * S;
	head->flight.in_collective = in_collective;
}

/* The daemon has looked at the ranks of all nodes. */
static void name(uint32_t epoch, uint32_t rank)
{
	head->entry.joined = 4;
	head->named = arena_named(epoch, rank);
}

/* The time of a kill is as that of a new epoch. */
static bool is_killed(uint64_t now)
{
	hang_tick(&launch, now);
	return launch.epoch_ns == now;
}

Test(launch_hang, a_rank_that_is_known_to_hang_is_killed_at_once)
{
	of_two_nodes(false);
	cr_expect(!is_killed(107 * S));
	cr_expect(is_killed(108 * S));
}

Test(launch_hang, one_that_may_wait_for_a_rank_of_another_node_is_killed_after_as_long_again)
{
	of_two_nodes(true);
	name(4, ARENA_NOBODY);
	cr_expect(!is_killed(107 * S) && !is_killed(108 * S) && !is_killed(115 * S));
	cr_expect(is_killed(116 * S));
}

Test(launch_hang, where_the_look_before_was_missed_the_one_that_is_known_is_killed_before_others)
{
	of_two_nodes(false);
	cr_expect(!is_killed(110 * S));
	cr_expect_eq(hang_next(&launch), 113 * S);
	cr_expect(!is_killed(113 * S));
	cr_expect(is_killed(114 * S));
}

Test(launch_hang, where_the_look_before_was_missed_one_that_may_wait_is_killed_last)
{
	of_two_nodes(true);
	name(4, ARENA_NOBODY);
	cr_expect(!is_killed(110 * S) && !is_killed(117 * S));
	cr_expect(is_killed(118 * S));
}

/* ---- while the daemon does not answer, or has not judged ---- */

/* Until somebody is killed; each look is followed by a later one. */
static uint64_t looked_until_killed(void)
{
	uint64_t now = hang_next(&launch);
	for (int looks = 0; !is_killed(now); looks++) {
		cr_assert_lt(looks, 40, "nobody is killed, or it looks without a pause");
		cr_assert_gt(hang_next(&launch), now);
		now = hang_next(&launch);
	}
	return now;
}

Test(launch_hang, while_the_daemon_does_not_answer_nobody_of_several_nodes_is_killed_for_eight_times_as_long)
{
	of_two_nodes(false);
	launch.link.heard_ns = 106 * S;
	uint64_t killed = looked_until_killed();
	cr_expect(killed >= 164 * S && killed <= 180 * S, "at %lu s", killed / S);
}

Test(launch_hang, before_the_daemon_has_judged_nobody_is_killed_who_may_wait_for_another_node)
{
	of_two_nodes(true);
	name(3, ARENA_NOBODY); /* that was another epoch */
	uint64_t killed = looked_until_killed();
	cr_expect(killed >= 164 * S && killed <= 180 * S, "at %lu s", killed / S);
}

/* One of them has come a collective further before both wait for a rank of another node. */
Test(launch_hang, nor_is_one_that_is_not_where_the_other_ranks_of_its_node_are)
{
	of_two_nodes(true);
	second = add(1);
	launch.nranks = 2;
	second->flight = head->flight;
	head->flight.coll_seq = 30;
	second->flight.coll_seq = 31;
	uint64_t killed = looked_until_killed();
	cr_expect(killed >= 164 * S && killed <= 180 * S, "at %lu s", killed / S);
}

Test(launch_hang, when_it_has_judged_and_names_nobody_the_time_begins_anew)
{
	of_two_nodes(true);
	cr_expect(!is_killed(107 * S) && !is_killed(108 * S) && !is_killed(115 * S));
	name(4, ARENA_NOBODY);
	cr_expect(!is_killed(116 * S));
	cr_expect_eq(looked_until_killed(), 124 * S);
}

Test(launch_hang, when_it_answers_again_the_time_begins_anew)
{
	of_two_nodes(false);
	launch.link.heard_ns = 106 * S;
	cr_expect(!is_killed(107 * S) && !is_killed(108 * S) && !is_killed(115 * S));
	launch.link.heard_ns = 115 * S;
	cr_expect_eq(looked_until_killed(), 116 * S);
}

Test(launch_hang, on_one_node_the_ranks_tell_all)
{
	launch.link.heard_ns = 0;
	cr_expect_eq(looked_until_killed(), 108 * S);
}

/* ---- while the daemon names one ---- */

Test(launch_hang, the_one_that_the_daemon_names_is_killed_at_once)
{
	of_two_nodes(true); /* nothing else tells it from one that waits */
	name(4, 0);
	cr_expect_eq(hang_next(&launch), 108 * S);
	cr_expect(!is_killed(107 * S) && is_killed(108 * S));
}

Test(launch_hang, nor_does_it_have_the_time_of_one_that_was_spared_before_it_was_named)
{
	of_two_nodes(true);
	cr_expect(!is_killed(107 * S) && !is_killed(108 * S));
	name(4, 0);
	cr_expect(is_killed(109 * S));
}

Test(launch_hang, while_one_on_another_node_is_named_nobody_here_is_killed)
{
	of_two_nodes(false); /* the one that it would kill else */
	name(4, 1);
	uint64_t now = 100 * S;
	for (int looks = 0; now < 163 * S; looks++) {
		cr_assert_lt(looks, 20, "it looks without a pause");
		cr_assert(!is_killed(now), "after %d looks", looks);
		cr_assert_gt(hang_next(&launch), now);
		now = hang_next(&launch);
	}
}

Test(launch_hang, unless_its_launcher_does_not_kill_that_one)
{
	of_two_nodes(false);
	name(4, 1);
	uint64_t now = hang_next(&launch);
	while (now < 200 * S && !is_killed(now))
		now = hang_next(&launch);
	cr_expect_geq(now, 164 * S);
	cr_expect_leq(now, 180 * S);
}

Test(launch_hang, what_was_said_of_another_epoch_does_not_count)
{
	of_two_nodes(false);
	name(3, 1);
	cr_expect(!is_killed(107 * S) && is_killed(108 * S));
}

Test(launch_hang, who_is_named_hangs_even_if_its_process_has_given_no_heartbeat)
{
	of_two_nodes(false);
	ranks[0].proc.started_ns = 101 * S;
	cr_expect(!is_killed(120 * S));
	name(4, 0);
	cr_expect_eq(hang_next(&launch), 109 * S);
	cr_expect(is_killed(121 * S));
}
