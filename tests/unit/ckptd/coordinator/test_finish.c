#include "ckptd/coordinator/coordinator_maker.h"

#include <criterion/criterion.h>

TestSuite(coord_finish, .init = coord_maker_setup, .fini = coord_maker_teardown);

static void finish(uint32_t node)
{
	cr_assert(coord_finished(coord, from(node), EACH));
}

Test(coord_finish, who_has_finished_stays_until_all_have)
{
	join_all();
	finish(1);
	cr_expect_eq(told[1].finish, PEER_STAYS);
	finish(2);
	cr_expect_eq(told[2].finish, PEER_STAYS);
	cr_expect_eq(told[0].finish, 0, "it is at work");
	finish(0);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].finish, PEER_DISMISSED);
}

Test(coord_finish, who_leaves_is_not_waited_for)
{
	join_all();
	finish(1);
	coord_leave(coord, 2);
	cr_expect_eq(told[1].finish, PEER_STAYS);
	coord_leave(coord, 0);
	cr_expect_eq(told[1].finish, PEER_DISMISSED);
}

Test(coord_finish, another_epoch_needs_all_again)
{
	join_all();
	finish(1);
	coord_lost(coord, from(0), 0, true, "it died");
	cr_expect_eq(told[1].raised, 1u, "it stayed for this");
	cr_expect_not(coord_finished(coord, (struct coord_from){.node = 1, .epoch = 1}, EACH), "not in this epoch");
	cr_expect_not(coord_has_finished(coord, 1));
	join_all();
	cr_expect_eq(told[0].joined, 2u);
}

Test(coord_finish, who_has_finished_before_he_entered_is_needed_by_who_waits)
{
	join_all();
	coord_lost(coord, from(0), 0, true, "it died");
	finish(1);
	cr_expect_eq(told[1].finish, PEER_STAYS, "the other ones may finish, too");
	join(0);
	cr_expect_eq(told[1].finish, PEER_NEEDED);
	cr_expect_not(coord_has_finished(coord, 1));
	finish(2);
	cr_expect_eq(told[2].finish, PEER_NEEDED, "somebody waits already");
	join(1);
	join(2);
	cr_expect_eq(told[0].joined, 2u);
}

Test(coord_finish, the_loss_of_who_has_finished_is_none)
{
	join_all();
	finish(1);
	coord_gone(coord, 1, "node n1 is silent");
	cr_expect_eq(told[0].raised, 0u);
	cr_expect_eq(coord_view(coord).attending, WORLD - EACH);
	finish(1);
	cr_expect_eq(coord_view(coord).epoch, 1u, "it is back, and has missed nothing");
	cr_expect_eq(coord_view(coord).attending, WORLD);
	coord_lost(coord, from(0), 0, true, "it died");
	cr_expect_eq(told[1].raised, 1u);
	coord_gone(coord, 1, "node n1 is silent");
	cr_expect_eq(told[0].raised, 2u, "now it is");
}

/* Of an earlier life of the coordinator it may know one of the same number. */
Test(coord_finish, who_was_away_is_not_taken_for_finished_before_all_have_entered)
{
	coord_gone(coord, 1, "node n1 is silent");
	cr_expect_not(coord_finished(coord, from(1), EACH));
	coord_node_join(coord, from(1), EACH, 1);
	cr_expect_eq(told[1].epoch, 2u);
}
