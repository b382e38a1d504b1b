/* Who writes what nodes hold alike, and what fails since a node is lost for good: coordinator/shared_files.c, coord_hold. */
#include "coordinator_maker.h"

#include <criterion/criterion.h>
#include <stdio.h>

static const struct step_id s10 = {10, 1};

TestSuite(coord_parts, .init = coord_maker_setup, .fini = coord_maker_teardown);

static void copied(struct step_id id)
{
	for (uint32_t n = 0; n < NODES; n++)
		coord_copied(coord, from(n), id);
}

static void made(struct step_id id)
{
	coord_ready(coord, from(0), id);
	coord_made(coord, id, false);
}

static void expect_parts(const uint32_t *part, const uint32_t *parts)
{
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect(told[n].writes == 1 && told[n].parts.n == 1 && told[n].parts.of[0].part == part[n] &&
				  told[n].parts.of[0].parts == parts[n],
			  "node %u: %u of %u, ordered %u times", n, told[n].parts.of[0].part, told[n].parts.of[0].parts,
			  told[n].writes);
}

Test(coord_parts, nodes_that_hold_the_same_write_a_part_each)
{
	join_all();
	copied(s10);
	made(s10);
	expect_parts((uint32_t[]){0, 1, 2}, (uint32_t[]){3, 3, 3});
}

Test(coord_parts, a_node_that_holds_something_else_writes_all_of_it)
{
	hold(1, 8, 1);
	join_all();
	copied(s10);
	made(s10);
	expect_parts((uint32_t[]){0, 0, 1}, (uint32_t[]){2, 1, 2});
}

Test(coord_parts, who_holds_the_same_in_other_pieces_leaves_it_to_the_others)
{
	hold(1, 7, 2);
	join_all();
	copied(s10);
	made(s10);
	expect_parts((uint32_t[]){0, 0, 1}, (uint32_t[]){2, 0, 2});
}

Test(coord_parts, nothing_is_written_before_all_have_said_what_they_hold)
{
	coord_leave(coord, 2);
	coord_node_join(coord, from(2), EACH, 0);
	join_all();
	copied(s10);
	made(s10);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].writes, 0);
	hold(2, 7, 1);
	expect_parts((uint32_t[]){0, 1, 2}, (uint32_t[]){3, 3, 3});
	hold(2, 7, 1);
	expect_parts((uint32_t[]){0, 1, 2}, (uint32_t[]){3, 3, 3});
}

Test(coord_parts, what_was_said_while_a_lost_node_was_still_counted_holds)
{
	coord_leave(coord, 1);
	coord_node_join(coord, from(0), 2 * EACH, 0); /* it has taken the ranks of a node whose end is not known yet */
	hold(0, 7, 1);
	coord_node_join(coord, from(1), EACH, 0);
	hold(1, 7, 1);
	coord_leave(coord, 2);
	coord_ready(coord, from(0), s10);
	coord_made(coord, s10, false);
	cr_expect(told[0].writes == 1 && told[1].writes == 1 && told[0].parts.of[0].parts == 2,
		  "%u, %u writes, %u parts", told[0].writes, told[1].writes, told[0].parts.of[0].parts);
}

Test(coord_parts, nobody_enters_a_world_that_is_about_to_change)
{
	join_all();
	cr_assert_eq(coord_view(coord).entered, 1);
	coord_hold(coord, "it changes");
	cr_expect_eq(coord_view(coord).epoch, 2);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].raised, 1);
	join_all();
	cr_expect_eq(coord_view(coord).entered, 1);
	coord_hold(coord, "again");
	cr_expect_eq(coord_view(coord).epoch, 2, "nobody has entered it");
	coord_release(coord);
	cr_expect_eq(coord_view(coord).entered, 2);
}

Test(coord_parts, what_a_lost_node_has_a_part_of_fails_before_the_world_changes)
{
	join_all();
	copied(s10);
	coord_gone(coord, 2, "it is lost");
	made(s10); /* as if it could come back */
	cr_expect_eq(told[0].failure, 0);
	coord_hold(coord, "it changes");
	cr_expect(told[0].failure == -ENODEV && told[1].failure == -ENODEV && place.dropped == 1);
	struct step_id s20 = {20, 1};
	coord_ready(coord, (struct coord_from){0, 2}, s20);
	cr_expect_eq(told[0].failure, -ENODEV);
	cr_expect_eq(place.made, 1, "no directory is made for the second");
}

/* The coordinator before this one had it written, and the part of a lost node is in it. */
Test(coord_parts, what_was_prepared_before_fails_in_a_world_that_is_about_to_change)
{
	struct peer_report prepared = {.type = PEER_PREPARED, .prepared.id = s10};
	join_all();
	coord_gone(coord, 2, "it is lost");
	coord_hold(coord, "it changes");
	coord_input(coord, (struct coord_from){0, coord_view(coord).epoch}, &prepared);
	cr_expect_eq(told[0].failure, -ENODEV);
	cr_expect_eq(place.made, 0, "its directory is not made anew: nobody could complete it");
}

/* Where a job of that name on one node has taken the place of one on several, the others of that one may still report. */
Test(coord_parts, a_node_that_has_no_part_in_the_job_says_nothing)
{
	static const uint16_t types[] = {PEER_SHARED_PIECES, PEER_RANK_JOIN, PEER_LOST, PEER_NOT_JOINING};
	join_all();
	for (uint32_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		coord_input(coord, (struct coord_from){.node = NODES, .epoch = 1},
			    &(struct peer_report){.type = types[i]});
	copied(s10);
	made(s10);
	expect_parts((uint32_t[]){0, 1, 2}, (uint32_t[]){3, 3, 3});
}
