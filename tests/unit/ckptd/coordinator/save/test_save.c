/* What becomes of a save on storage: coordinator/save/save.c. */
#include "ckptd/coordinator/coordinator_maker.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const struct step_id s10 = {10, 1}, s20 = {20, 1};

TestSuite(coord_save, .init = coord_maker_setup, .fini = coord_maker_teardown);

static void capture(struct step_id id)
{
	for (uint32_t n = 0; n < NODES; n++)
		coord_copied(coord, from(n), id);
	for (uint32_t n = 0; n < NODES; n++)
		coord_reached(coord, from(n), id, LEVEL_CAPTURED);
}

static void prepare(uint32_t node, struct step_id id)
{
	struct peer_part part = {.node = {.size = 13}, .began = node == 1, .bytes = 100, .stored = 100, .files = 2};
	snprintf(part.node.name, sizeof(part.node.name), "n%u", NODES - node); /* not in the order of the nodes */
	name_node(part.node.name, part.node.file);
	coord_prepared(coord, from(node), id, &part);
}

static void expect_level(enum level_shown level)
{
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].level, level, "node %u: %d", n, told[n].level);
}

/* From the first node's turn to the directory that all write into. */
static void write(struct step_id id)
{
	coord_ready(coord, from(0), id);
	coord_made(coord, id, false);
}

Test(coord_save, nodes_write_when_the_directory_is_there)
{
	join_all();
	capture(s10);
	coord_ready(coord, from(0), s10);
	coord_ready(coord, from(0), s10); /* twice is once */
	cr_expect_eq(place.made, 1);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].writes, 0, "there is nothing to write into yet");
	coord_made(coord, s10, true);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect(told[n].writes == 1 && told[n].found);
}

Test(coord_save, what_stays_in_memory_stays_there_on_all_nodes_and_may_be_written_later)
{
	join_all();
	capture(s10);
	coord_passed(coord, from(0), s10, -EOPNOTSUPP, "one in three");
	cr_expect_eq(told[0].passed, 0, "it has said so itself");
	cr_expect(told[1].passed == -EOPNOTSUPP && told[2].passed == -EOPNOTSUPP);
	coord_ready(coord, from(0), s10);
	cr_expect_eq(place.made, 1);
}

Test(coord_save, what_one_node_has_skipped_fails_for_all_whoever_tells_first)
{
	const struct step_id s30 = {30, 1}, s40 = {40, 1};
	join_all();
	coord_copied(coord, from(0), s10);
	coord_copied(coord, from(0), s20);
	coord_copied(coord, from(1), s10);
	coord_copied(coord, from(1), s20);
	cr_expect_eq(told[2].failed.step, 0, "the third is slow");
	coord_copied(coord, from(2), s20);
	cr_expect_eq(told[0].failed.step, s10.step);
	coord_copied(coord, from(0), s40);
	cr_expect_eq(told[0].failed.step, s10.step, "nobody has begun the one between");
	coord_copied(coord, from(1), s30);
	cr_expect_eq(told[1].failed.step, s30.step);
}

Test(coord_save, the_manifest_is_written_when_all_are_prepared_and_once)
{
	join_all();
	capture(s10);
	write(s10);
	prepare(2, s10);
	prepare(0, s10);
	cr_expect_eq(place.sealed, 0);
	prepare(1, s10);
	prepare(1, s10);
	cr_expect_eq(place.sealed, 1);
	expect_level(LEVEL_CAPTURED);
	struct manifest m;
	struct err err = {{0}};
	cr_assert_eq(manifest_decode(place.manifest, strlen(place.manifest), &m, &err), 0, "%s", err.text);
	cr_expect_eq(m.began, 1, "one node says so");
	cr_expect_eq(m.nnodes, NODES);
	cr_expect_eq(m.bytes, NODES * 100);
	cr_expect_eq(m.files, NODES * 2);
	cr_expect_str_eq(m.nodes[0].name, "n1");
	manifest_free(&m);
	coord_sealed(coord, s10);
	expect_level(LEVEL_DURABLE);
	cr_expect_eq(place.dropped + place.removed, 0);
}

Test(coord_save, what_fails_on_one_node_fails_on_all_and_stays_so)
{
	join_all();
	capture(s10);
	write(s10);
	prepare(0, s10);
	prepare(1, s10);
	coord_failed(coord, from(2), s10, true, -ENOSPC, "no space");
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].failure, -ENOSPC);
	told[2].failure = 0;
	prepare(2, s10); /* was on its way */
	cr_expect_eq(place.sealed, 0);
	cr_expect_eq(told[2].failure, -ECANCELED);
}

Test(coord_save, what_has_failed_is_deleted_once_it_is_out_of_the_way)
{
	join_all();
	capture(s10);
	write(s10);
	prepare(0, s10);
	coord_failed(coord, from(2), s10, true, -ENOSPC, "no space");
	cr_expect_eq(place.dropped, 1);
	coord_ready(coord, from(0), s10);
	cr_expect_eq(place.made, 1, "its name is taken");
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].clears, 0);
	coord_left(coord, s10, false);
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect(told[n].clears == 1 && !told[n].kept);
		cr_expect_eq(place.removed, 0);
		coord_cleared(coord, n, s10);
		coord_forgot(coord, n, s10);
	}
	cr_expect_eq(place.removed, 1);
	capture(s10); /* nobody knows of it any more: made anew */
	write(s10);
	for (uint32_t n = 0; n < NODES; n++)
		prepare(n, s10);
	cr_expect_eq(place.sealed, 1);
}

Test(coord_save, a_directory_that_cannot_be_made_fails_it_and_nothing_is_deleted)
{
	join_all();
	capture(s10);
	coord_ready(coord, from(0), s10);
	coord_spoiled(coord, s10, -EROFS, "read-only");
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].failure, -EROFS);
	coord_left(coord, s10, true);
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect(told[n].clears == 1 && told[n].kept);
		coord_cleared(coord, n, s10);
	}
	cr_expect_eq(place.removed, 1);
}

/* It is written as soon as one node has begun it. Who begins it after that has failed would keep its slots for an order that never comes. */
Test(coord_save, who_begins_it_after_it_has_failed_towards_storage_hears_of_that)
{
	join_all();
	coord_ready(coord, from(0), s10);
	coord_spoiled(coord, s10, -ENOSPC, "no space");
	coord_forgot(coord, 2, s10); /* it has not begun it */
	told[2].failure = 0;
	coord_copied(coord, from(2), s10);
	cr_expect(told[2].failure == -ECANCELED && told[2].towards_storage);
	cr_expect_eq(told[2].failed.step, 10);
	capture(s10);
	expect_level(LEVEL_CAPTURED);
}

Test(coord_save, who_has_no_part_in_a_directory_is_not_waited_for)
{
	join_all();
	coord_failed(coord, from(1), s10, false, -EBADMSG, "torn");
	cr_expect_eq(place.dropped, 0);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect(told[n].clears == 1 && told[n].kept);
	capture(s20);
	write(s20);
	coord_failed(coord, from(1), s20, true, -EIO, "disk");
	coord_left(coord, s20, false);
	coord_cleared(coord, 0, s20);
	coord_cleared(coord, 1, s20);
	coord_gone(coord, 2, "node n2 is silent");
	cr_expect_eq(place.removed, 1);
}

Test(coord_save, a_promise_is_kept_although_the_node_is_lost)
{
	join_all();
	capture(s10);
	write(s10);
	for (uint32_t n = 0; n < NODES; n++)
		prepare(n, s10);
	coord_failed(coord, from(1), s10, true, -EIO, "too late");
	coord_gone(coord, 2, "node n2 is silent");
	cr_expect_eq(told[0].failure, 0);
	coord_sealed(coord, s10);
	cr_expect_eq(told[0].level, LEVEL_DURABLE);
}

Test(coord_save, the_loss_of_a_node_fails_what_others_have_prepared)
{
	join_all();
	capture(s10);
	capture(s20);
	write(s10);
	prepare(0, s10);
	coord_gone(coord, 2, "node n2 is silent");
	cr_expect_eq(told[0].failure, -ENODEV);
	cr_expect_eq(step_compare(told[0].failed, s10), 0);
	cr_expect_eq(told[0].raised, 1);
	cr_expect_eq(place.dropped, 1);
}

static void expect_superseded(struct step_id id)
{
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(told[n].failure, -ECANCELED);
		cr_expect_eq(step_compare(told[n].failed, id), 0);
	}
}

/* A node has its part of s10 by order of an earlier life of the coordinator; rank 0's node was restarted, too, and has decided for s20: each
 * of them would wait for the other's part. */
Test(coord_save, what_an_earlier_life_ordered_gives_way_to_what_is_being_written)
{
	join_all();
	capture(s10);
	capture(s20);
	write(s20);
	prepare(1, s10);
	cr_expect_eq(place.made, 1);
	expect_superseded(s10);
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect(told[n].clears == 1 && told[n].kept);
		prepare(n, s20);
	}
	cr_expect_eq(place.sealed, 1);
}

Test(coord_save, what_an_earlier_life_ordered_gives_way_to_what_is_newer)
{
	join_all();
	capture(s10);
	capture(s20);
	prepare(1, s10);
	coord_made(coord, s10, false);
	cr_expect_eq(place.made, 1);
	write(s20);
	expect_superseded(s10);
	cr_expect_eq(place.dropped, 1);
	cr_expect_eq(place.made, 2);
	for (uint32_t n = 0; n < NODES; n++)
		prepare(n, s20);
	cr_expect_eq(place.sealed, 1);
}

Test(coord_save, what_all_are_prepared_for_hinders_nothing)
{
	join_all();
	capture(s10);
	capture(s20);
	write(s10);
	for (uint32_t n = 0; n < NODES; n++)
		prepare(n, s10);
	write(s20);
	cr_expect_eq(told[0].failure, 0);
	cr_expect_eq(place.made, 2);
}

/* Node 0 was restarted when it had its part, and has not heard that all had. */
static void durable_but_not_for_node_0(void)
{
	join_all();
	capture(s10);
	write(s10);
	for (uint32_t n = 0; n < NODES; n++)
		prepare(n, s10);
	coord_sealed(coord, s10);
	expect_level(LEVEL_DURABLE);
	coord_gone(coord, 0, "node n0 is lost");
	told[0].level = LEVEL_PENDING;
	coord_node_join(coord, from(0), EACH, 1);
}

Test(coord_save, who_was_restarted_compares_its_part_of_what_is_on_storage)
{
	durable_but_not_for_node_0();
	coord_ready(coord, from(0), s10);
	cr_expect_eq(told[0].writes, 1, "it is not known yet what it holds");
	coord_shares(coord, 0, &(struct shares){0});
	cr_expect(told[0].writes == 2 && told[0].found);
	cr_expect(told[1].writes == 1 && told[2].writes == 1 && place.made == 1, "it is there");
	prepare(0, s10);
	cr_expect_eq(told[0].level, LEVEL_DURABLE);
	cr_expect_eq(place.sealed, 1);
	coord_ready(coord, from(0), s10);
	cr_expect_eq(told[0].writes, 3, "it was restarted once more");
}

/* Node 2 was lost, and node 0 has decided for a save before the job was planned anew. */
static void decided_without_a_node(void)
{
	join_all();
	capture(s10);
	capture(s20);
	coord_gone(coord, 2, "node n2 is silent");
	write(s10);
	cr_assert(place.made == 1 && !told[1].writes, "who writes what is not known");
}

static void expect_moving(struct step_id id)
{
	for (uint32_t n = 0; n < NODES - 1; n++) {
		cr_expect_eq(told[n].failure, -ENODEV);
		cr_expect_eq(step_compare(told[n].failed, id), 0);
	}
}

/* Nobody would order it while more ranks are there than the world has, and whose they were lets go of none that it is to write. */
Test(coord_save, what_is_to_be_written_fails_when_ranks_come_to_another_node_before_they_are_let_go)
{
	decided_without_a_node();
	coord_node_join(coord, from(2), 2 * EACH, 0);
	expect_moving(s10);
	coord_ready(coord, from(0), s20);
	expect_moving(s20);
	cr_expect_eq(place.made, 1);
}

Test(coord_save, what_is_to_be_written_fails_when_a_plan_moves_ranks_and_a_node_is_lost)
{
	decided_without_a_node();
	cr_expect(coord_moves(coord, 0));
	cr_expect_eq(coord_view(coord).attending, EACH);
	expect_moving(s10);
	cr_expect_not(coord_moves(coord, 2), "it is not there");
}

/* All have their parts: it is written before the ranks are let go. */
Test(coord_save, what_is_to_be_written_stays_when_a_plan_moves_ranks_of_a_node_that_is_there)
{
	join_all();
	capture(s10);
	write(s10);
	coord_lost(coord, from(1), 1, true, "its launcher has died");
	cr_expect_not(coord_moves(coord, 0));
	cr_expect_eq(coord_view(coord).attending, WORLD);
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(told[n].failure, 0);
		prepare(n, s10);
	}
	cr_expect_eq(place.sealed, 1);
}
