#include "ckptd/coordinator/restore/restore_maker.h"

#include <criterion/criterion.h>

static const struct step_id s10 = {10, 1}, s20 = {20, 1}, s30 = {30, 1};

static void setup(void)
{
	coord_maker_setup_in(2);
}

TestSuite(coord_rollback, .init = setup, .fini = coord_maker_teardown);

static const struct coord_held later_copies[] = {
	{.node = 1, .rank = 0, .world = WORLD, .id = {20, 1}}, {.node = 1, .rank = 1, .world = WORLD, .id = {20, 1}},
	{.node = 1, .rank = 2, .world = WORLD, .id = {20, 1}}, {.node = 1, .rank = 3, .world = WORLD, .id = {20, 1}},
	{.node = 1, .rank = 4, .world = WORLD, .id = {20, 1}}, {.node = 1, .rank = 5, .world = WORLD, .id = {20, 1}}};

static void ask_after_rollback(uint64_t step)
{
	coord_recall_rollbacks(coord, &(struct rollbacks){1, {{2, {15, 1}}}});
	ask(step);
}

/* Nodes leave out what is given up of what they have; copies are left out here. */
Test(coord_rollback, what_was_given_up_is_not_the_newest)
{
	ask_after_rollback(STEP_NEWEST);
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(rollbacks_last(&told[n].look.back), 2);
		cr_expect_eq(told[n].look.back.of[0].to.step, 15);
	}
	for (uint32_t n = 0; n < NODES; n++)
		coord_found(coord, from(n),
			    &(struct peer_restore_candidates){.nstored = 1, .stored = {{10, 1}}, .others = true});
	survey(later_copies, 6);
	expect_bring(s10, true);
}

Test(coord_rollback, what_was_given_up_can_be_asked_for_by_its_step)
{
	ask_after_rollback(20);
	cr_expect_eq(told[0].look.back.n, 0);
	for (uint32_t n = 0; n < NODES; n++)
		coord_found(coord, from(n), &(struct peer_restore_candidates){.others = true});
	survey(later_copies, 6);
	expect_bring(s20, false);
}

Test(coord_rollback, what_was_given_up_is_better_than_to_begin_anew)
{
	ask_after_rollback(STEP_NEWEST);
	for (uint32_t n = 0; n < NODES; n++)
		coord_found(coord, from(n), &(struct peer_restore_candidates){.others = true});
	survey(later_copies, 6);
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(told[n].looked, 2, "again, for all");
		cr_expect_eq(told[n].look.back.n, 0);
	}
	cr_expect_eq(surveys, 2);
	find_all(s30, 2);
	expect_bring(s30, false);
	bring_all(s30, 0);
	cr_expect_str_eq(told[0].choice.why,
			 "the job went back to step 15 of epoch 1, and nothing intact is left that is as old");
}

Test(coord_rollback, so_it_is_where_all_that_counts_is_damaged)
{
	ask_after_rollback(STEP_NEWEST);
	for (uint32_t n = 0; n < NODES; n++)
		coord_found(coord, from(n),
			    &(struct peer_restore_candidates){.nstored = 1, .stored = {{10, 1}}, .others = true});
	survey(NULL, 0);
	bring_all(s10, -EBADMSG);
	cr_expect_eq(told[0].refused, 0);
	find_all(s30, 2);
	bring_all(s30, 0);
	expect_restored(s30, WIRE_FROM_STORAGE);
	cr_expect_str_eq(told[0].choice.why,
			 "step 10 epoch 1: a sentence; the job went back to step 15 of epoch 1, and nothing intact is "
			 "left that is as old");
}

Test(coord_rollback, while_a_node_that_may_have_something_as_old_is_away_nothing_that_was_given_up_is_taken)
{
	ask_after_rollback(STEP_NEWEST);
	for (uint32_t n = 0; n < NODES; n++)
		coord_found(coord, from(n), &(struct peer_restore_candidates){.others = true});
	coord_surveyed(coord, &(struct coord_survey){.epoch = from(0).epoch, .unheard = 1, .names = "c"});
	cr_expect_eq(told[0].refusal, -EIO);
	cr_expect_eq(told[0].looked, 1);
}

Test(coord_rollback, a_job_that_goes_back_begins_an_epoch_and_restores_nothing_later)
{
	struct wire_rollback to = {.to = {15, 1}, .reason = "the loss is NaN"};
	join_all();
	slow_record = true;
	coord_rollback(coord, from(1), &to);
	cr_expect_eq(told[0].raised, 0, "not before it is on record");
	cr_expect_eq(coord_view(coord).back.of[0].at, 3);
	record(3);
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(told[n].raised, 1);
		cr_expect_str_eq(told[n].text, "the job goes back to step 15 of epoch 1: the loss is NaN");
	}
	coord_rollback(coord, (struct coord_from){.node = 2, .epoch = 2}, &to);
	cr_expect_eq(told[2].raised, 1, "that was asked in the epoch before");
	slow_record = false;
	ask(STEP_NEWEST);
	cr_expect_eq(rollbacks_last(&told[0].look.back), 3);
	cr_expect_eq(step_compare(told[0].look.back.of[0].to, to.to), 0);
}

Test(coord_rollback, a_loss_in_the_same_moment_does_not_undo_it)
{
	const struct coord_from asked = from(1);
	join_all();
	slow_record = true;
	coord_lost(coord, from(2), 2, true, "killed");
	coord_rollback(coord, asked, &(struct wire_rollback){.to = {15, 1}, .reason = "as told"});
	cr_expect_eq(coord_view(coord).back.of[0].at, 4, "the loss had begun an epoch of its own");
	record(3);
	record(4);
	slow_record = false;
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_str_eq(told[n].text, "the job goes back to step 15 of epoch 1: as told");
	coord_rollback(coord, asked, &(struct wire_rollback){.to = {10, 1}, .reason = "another node saw it, too"});
	cr_expect_eq(coord_view(coord).back.n, 1);
	cr_expect_eq(coord_view(coord).epoch, 4);
	ask(STEP_NEWEST);
	cr_expect_eq(rollbacks_last(&told[0].look.back), 4);
}

Test(coord_rollback, who_has_no_rank_or_asks_from_an_epoch_to_come_is_not_heard)
{
	join_all();
	coord_rollback(coord, (struct coord_from){.node = 1, .epoch = 3}, &(struct wire_rollback){.to = {15, 1}});
	coord_rollback(coord, (struct coord_from){.node = 1}, &(struct wire_rollback){.to = {15, 1}});
	coord_gone(coord, 1, "its node is lost");
	coord_rollback(coord, (struct coord_from){.node = 1, .epoch = 2}, &(struct wire_rollback){.to = {15, 1}});
	cr_expect_eq(coord_view(coord).back.n, 0);
}

Test(coord_rollback, a_job_cannot_go_back_to_an_epoch_to_come)
{
	join_all();
	coord_rollback(coord, from(1), &(struct wire_rollback){.to = {15, 3}});
	cr_expect_eq(told[0].raised, 0);
	cr_expect_eq(coord_view(coord).back.n, 0);
}
