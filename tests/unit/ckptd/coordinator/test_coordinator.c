#include "ckptd/coordinator/coordinator_maker.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const struct step_id s10 = {10, 1}, s20 = {20, 1}, s30 = {30, 1};

TestSuite(coord, .init = coord_maker_setup, .fini = coord_maker_teardown);

static void expect_level(enum level_shown level)
{
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].level, level, "node %u: %d", n, told[n].level);
}

/* ---- epochs ---------------------------------------------------------------------------------------------------- */

Test(coord, an_epoch_is_entered_by_all_ranks_together_and_once)
{
	join(0);
	join(2);
	cr_expect_eq(told[0].joined, 0);
	join(1);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].joined, 1);
	cr_expect_eq(coord_view(coord).entered, 1);
	join(1); /* again: all must come along */
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].raised, 1);
	cr_expect_eq(coord_view(coord).epoch, 2);
	cr_expect_eq(told[0].joined, 1);
	join(0);
	join(2);
	cr_expect_eq(told[0].joined, 2);
}

Test(coord, a_node_that_waits_no_longer_is_not_counted)
{
	join(0);
	join(1);
	coord_not_joining(coord, from(1));
	join(2);
	cr_expect_eq(told[0].joined, 0);
	join(1);
	cr_expect_eq(told[0].joined, 1);
}

Test(coord, before_the_job_began_a_lost_rank_raises_nothing)
{
	coord_lost(coord, from(1), 4, false, "died");
	cr_expect_eq(told[1].told, 1);
	cr_expect_eq(coord_view(coord).epoch, 1);
	join_all();
	coord_lost(coord, from(1), 4, true, "died");
	cr_expect_eq(coord_view(coord).epoch, 2);
	cr_expect_str_eq(told[2].text, "rank 4 is lost: died");
}

Test(coord, the_loss_of_a_node_raises_the_epoch_for_the_others)
{
	join_all();
	coord_gone(coord, 2, "node n2 is silent");
	cr_expect_eq(told[0].raised, 1);
	cr_expect_eq(told[2].raised, 0);
	join(0);
	join(1);
	cr_expect_eq(told[0].joined, 1, "not without the ranks of the lost node");
	coord_node_join(coord, from(2), EACH, 0);
	cr_expect_eq(told[2].epoch, 2);
	cr_expect_eq(told[2].raised, 0, "it knows of no other epoch");
	join(2);
	cr_expect_eq(told[0].joined, 2);
}

Test(coord, a_node_that_comes_back_is_told_of_the_epoch)
{
	join_all();
	coord_gone(coord, 2, "node n2 is silent");
	coord_node_join(coord, from(2), EACH, 1);
	cr_expect_eq(told[2].raised, 1);
	cr_expect_eq(told[2].epoch, 2);
	cr_expect_str_eq(told[2].text, "node n2 is silent");
	join_all();
	cr_expect_eq(told[0].joined, 2);
}

Test(coord, who_joins_or_joins_twice_undoes_nothing)
{
	join(0);
	coord_node_join(coord, from(0), EACH, 0);
	join(1);
	join(2);
	cr_expect_eq(told[0].joined, 1, "that it waited was forgotten");
	struct peer_node_ready again = {.n = EACH, .ranks = {0, NODES}};
	coord_joining(coord, from(0), &again);
	coord_node_join(coord, from(0), EACH, 1);
	coord_joining(coord, from(0), &again);
	cr_expect_eq(coord_view(coord).epoch, 1, "it has entered already");
}

static void join_as(uint32_t node, uint32_t as)
{
	struct peer_node_ready m = {.n = EACH};
	for (uint32_t i = 0; i < EACH; i++)
		m.ranks[i] = as + i * NODES;
	coord_joining(coord, from(node), &m);
}

Test(coord, nodes_that_were_lost_may_come_back_with_the_ranks_of_each_other)
{
	join_all();
	coord_gone(coord, 1, "node n1 is silent");
	coord_gone(coord, 2, "node n2 is silent");
	coord_node_join(coord, from(1), EACH, 1);
	coord_node_join(coord, from(2), EACH, 1);
	join_as(1, 2);
	join_as(2, 1);
	cr_expect_eq(told[2].away, 0, "%s", told[2].text);
	join_as(2, 2);
	cr_expect_eq(told[2].away, -EINVAL, "they are on node 1 now");
}

Test(coord, who_waits_enters_when_the_host_lets_them)
{
	shut = true;
	join_all();
	coord_admit(coord);
	cr_expect_eq(told[0].joined, 0);
	shut = false;
	coord_admit(coord);
	cr_expect_eq(told[0].joined, 1);
}

/* With half of the ranks. */
static void join_half(uint32_t node)
{
	struct peer_node_ready m = {.n = WORLD / 2};
	for (uint32_t i = 0; i < m.n; i++) {
		m.ranks[i] = node * m.n + i;
		m.lens[i] = 1;
		m.addresses[(size_t)i * WIRE_ADDRESS_MAX] = (uint8_t)('a' + m.ranks[i]);
	}
	coord_node_join(coord, from(node), m.n, 0);
	coord_joining(coord, from(node), &m);
}

/* Its ranks are on the others by now. */
Test(coord, nor_is_anybody_let_in_as_a_node_leaves)
{
	shut = true;
	join_half(0);
	join_half(1);
	coord_leave(coord, 2);
	cr_assert_eq(told[0].joined, 0);
	shut = false;
	coord_admit(coord);
	cr_expect_eq(told[0].joined, 1);
}

/* Each of its ranks has these blobs of the job. */
static void join_with(uint32_t node, const struct job_blobs *blobs)
{
	struct peer_node_ready m = {.n = EACH, .blobs = *blobs};
	for (uint32_t i = 0; i < EACH; i++) {
		m.ranks[i] = node + i * NODES;
		m.lens[i] = 1;
		m.addresses[i * WIRE_ADDRESS_MAX] = (uint8_t)('a' + m.ranks[i]);
	}
	coord_joining(coord, from(node), &m);
}

Test(coord, nobody_enters_before_all_nodes_have_the_blobs_of_the_job)
{
	static const struct job_blobs one = {.n = 1, .digest = 7, .named = {{"loader", 8}}}, none;
	join_with(0, &one);
	join_with(1, &one);
	cr_expect_eq(told[0].away, 0, "node 2 has not come");
	join_with(2, &none);
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(told[n].joined, 0);
		cr_expect_eq(told[n].away, -EINVAL);
		cr_expect(strstr(told[n].text, "blob \"loader\" of the job is registered on rank 0, but not on rank 2"),
			  "%s", told[n].text);
	}
	for (uint32_t n = 0; n < NODES; n++)
		join_with(n, &one);
	cr_expect_eq(told[2].joined, 1);
}

Test(coord, a_node_that_joins_those_at_work_raises_the_epoch)
{
	join_all();
	coord_leave(coord, 2);
	coord_node_join(coord, from(2), EACH, 0);
	struct peer_node_ready m = {.n = EACH, .ranks = {2, 2 + NODES}};
	coord_joining(coord, from(2), &m);
	cr_expect_eq(coord_view(coord).epoch, 2);
	cr_expect_str_eq(told[0].text, "a node joins");
}

Test(coord, a_node_that_has_finished_raises_nothing)
{
	join_all();
	coord_leave(coord, 2);
	cr_expect_eq(coord_view(coord).epoch, 1);
	cr_expect_eq(coord_view(coord).attending, WORLD - EACH);
}

/* They are on node 1 now, which has said so before node 2 followed. */
Test(coord, when_who_has_lost_his_ranks_leaves_the_others_enter)
{
	struct peer_node_ready m = {.n = 2 * EACH, .ranks = {1, 1 + NODES, 2, 2 + NODES}};
	for (uint32_t i = 0; i < m.n; i++) {
		m.lens[i] = 1;
		m.addresses[i * WIRE_ADDRESS_MAX] = (uint8_t)('a' + m.ranks[i]);
	}
	coord_node_join(coord, from(1), 2 * EACH, 0);
	join(0);
	coord_joining(coord, from(1), &m);
	cr_expect_eq(told[0].joined, 0);
	coord_leave(coord, 2);
	cr_expect_eq(told[0].joined, 1);
	cr_expect_eq(told[1].joined, 1);
}

Test(coord, what_a_node_knows_is_not_given_out_again)
{
	coord_node_join(coord, from(1), EACH, 7);
	cr_expect_eq(coord_view(coord).epoch, 8);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].epoch, 8);
	join_all();
	cr_expect_eq(told[0].joined, 1);
}

Test(coord, nor_when_it_is_what_another_node_has_had_begun_meanwhile)
{
	struct coord_from untold0 = {.node = 0}, untold1 = {.node = 1};
	coord_gone(coord, 2, "node n2 is silent");
	coord_node_join(coord, untold0, EACH, 1);
	cr_expect_eq(coord_view(coord).epoch, 2);
	coord_node_join(coord, from(2), EACH, 2); /* in which it was with an earlier life of the coordinator */
	cr_expect_eq(coord_view(coord).epoch, 3);
	coord_node_join(coord, untold1, EACH, 3); /* it has not heard of 3 from here */
	cr_expect_eq(coord_view(coord).epoch, 4);
	coord_node_join(coord, from(1), EACH, 4);
	cr_expect_eq(coord_view(coord).epoch, 4);
	join_all();
	cr_expect_eq(told[0].joined, 1);
}

Test(coord, nobody_is_told_of_an_epoch_that_is_not_recorded)
{
	join_all();
	slow_record = true;
	coord_lost(coord, from(0), 0, true, "died");
	coord_lost(coord, from(1), 1, true, "died, too");
	cr_expect_eq(told[0].raised, 0);
	coord_gone(coord, 2, "node n2 is silent");
	record(2);
	cr_expect_eq(told[0].raised, 0, "it has been raised again meanwhile");
	coord_node_join(coord, from(2), EACH, 1);
	cr_expect_eq(told[2].raised, 0);
	record(3);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].epoch, 3);
	join_all();
	cr_expect_eq(told[2].joined, 2);
}

Test(coord, who_was_lost_first_is_told_until_all_are_at_work_again)
{
	join_all();
	coord_lost(coord, from(1), 4, true, "died");
	cr_expect_eq(told[0].lost, 4);
	coord_lost(coord, from(0), 0, true, "exited, since the epoch has moved on");
	coord_gone(coord, 2, "node n2 is silent");
	cr_expect_eq(told[1].raised, 3);
	cr_expect_eq(told[1].lost, 4);
	cr_expect_eq(told[1].loss, LOST_RANK);
	coord_node_join(coord, from(2), EACH, 4);
	join_all();
	coord_gone(coord, 2, "node n2 is silent");
	cr_expect_eq(told[0].lost % NODES, 2, "rank %u", told[0].lost);
	cr_expect_eq(told[0].loss, LOST_NODE);
	coord_node_join(coord, from(2), EACH, coord_view(coord).epoch);
	join_all();
	coord_want(coord, from(0), 0);
	cr_expect_eq(told[0].lost, COORD_NOBODY, "it has only begun again");
	cr_expect_eq(told[0].loss, LOST_NONE);
	coord_lost(coord, from(1), 1, true, "exited, since the epoch has moved on");
	cr_expect_eq(told[0].lost, COORD_NOBODY);
}

/* It waits to enter with ranks that the new plan gives to node 2, and has yet to hear of that. */
Test(coord, a_rank_that_moves_is_not_on_another_node_too)
{
	struct peer_node_ready m = {.n = EACH, .ranks = {0, 3}, .lens = {1, 1}, .addresses = {'a'}};
	m.addresses[WIRE_ADDRESS_MAX] = 'd';
	join(0);
	cr_expect_not(coord_moves(coord, 0), "all are there");
	coord_joining(coord, from(0), &m); /* it says so again */
	coord_joining(coord, from(2), &m);
	cr_expect_eq(told[2].away, 0, "%s", told[2].text);
	coord_node_join(coord, from(0), EACH, 0); /* by the new plan */
	m.ranks[0] = 2;
	m.ranks[1] = 5;
	m.addresses[0] = 'c';
	m.addresses[WIRE_ADDRESS_MAX] = 'f';
	coord_joining(coord, from(0), &m);
	join(1);
	cr_expect_eq(told[1].joined, 1);
}

Test(coord, two_nodes_cannot_have_the_same_rank)
{
	struct peer_node_ready m = {.n = EACH, .ranks = {0, 4}};
	join(0);
	coord_joining(coord, from(1), &m);
	cr_expect_eq(told[1].away, -EINVAL);
	cr_expect_str_eq(told[1].text, "rank 0 is on another node, too");
	m.ranks[0] = WORLD;
	coord_joining(coord, from(1), &m);
	cr_expect_str_eq(told[1].text, "rank 6 of a world of 6");
	join(1);
	join(2);
	cr_expect_eq(told[0].joined, 1);
}

/* Else a rank of the world would be nobody's when all others have come, and its node is asked for its tensors. */
Test(coord, a_node_cannot_have_a_rank_twice)
{
	struct peer_node_ready m = {.n = EACH, .ranks = {1, 1}, .tensors = {7, 7}};
	join(0);
	join(2);
	coord_joining(coord, from(1), &m);
	cr_expect_eq(told[1].away, -EINVAL);
	cr_expect_str_eq(told[1].text, "rank 1 is named twice");
	cr_expect_eq(told[0].joined, 0);
	join(1);
	cr_expect_eq(told[0].joined, 1);
}

Test(coord, a_report_of_another_epoch_changes_nothing_and_is_counted)
{
	join_all();
	struct coord_from old = from(0);
	coord_lost(coord, from(1), 1, true, "died");
	uint32_t epoch = coord_view(coord).epoch;
	coord_lost(coord, old, 0, true, "died long ago");
	coord_want(coord, old, 0);
	coord_missing(coord, old, 0);
	coord_restoring(coord, old, UINT64_MAX);
	coord_reached(coord, old, s10, LEVEL_CAPTURED);
	coord_failed(coord, old, s10, true, -EIO, "");
	cr_expect_eq(coord_view(coord).epoch, epoch);
	cr_expect_eq(coord_view(coord).stale, 6);
}

Test(coord, after_a_restart_the_ranks_know_the_epoch)
{
	coord_knows(coord, 0, WITNESS_OTHER, 4);
	cr_expect_eq(coord_view(coord).epoch, 5, "a launcher proves only that it was given out");
	coord_knows(coord, 1, WITNESS_RANK, 4);
	cr_expect_eq(coord_view(coord).epoch, 4);
	cr_expect_eq(coord_view(coord).entered, 4);
	coord_knows(coord, 2, WITNESS_ARENA, 5);
	cr_expect_eq(coord_view(coord).epoch, 6, "5 was given out, and not everybody knows");
	cr_expect_eq(told[0].raised, 1);
}

/* ---- saves ----------------------------------------------------------------------------------------------------- */

Test(coord, a_level_is_shown_when_true_on_every_node)
{
	join_all();
	for (enum level_shown level = LEVEL_CAPTURED; level <= LEVEL_REPLICATED; level++) {
		coord_reached(coord, from(0), s10, level);
		coord_reached(coord, from(0), s10, level); /* twice is once */
		coord_reached(coord, from(1), s10, level);
		expect_level(level - 1);
		coord_reached(coord, from(2), s10, level);
		expect_level(level);
	}
}

Test(coord, what_not_all_had_copied_when_the_epoch_was_raised_is_garbage)
{
	join_all();
	for (uint32_t n = 0; n < NODES; n++)
		coord_copied(coord, from(n), s10);
	coord_copied(coord, from(0), s20);
	coord_copied(coord, from(1), s20);
	coord_lost(coord, from(2), 2, true, "died");
	cr_expect_eq(step_compare(told[0].failed, s20), 0);
	cr_expect_eq(told[0].failure, -ESTALE);
	coord_copied(coord, from(2), s20); /* its ranks went on for a while */
	coord_reached(coord, from(2), s20, LEVEL_CAPTURED);
	coord_copied(coord, from(1), s30); /* and so did these */
	cr_expect_eq(step_compare(told[0].failed, s30), 0);
	expect_level(LEVEL_PENDING);
	for (uint32_t n = 0; n < NODES; n++)
		coord_reached(coord, from(n), s10, LEVEL_CAPTURED);
	expect_level(LEVEL_CAPTURED);
}
