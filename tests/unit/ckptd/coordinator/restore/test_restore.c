#include "ckptd/coordinator/restore/restore_maker.h"
#include "coordinator/coordinator_private.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const struct step_id s10 = {10, 1}, s20 = {20, 1}, s30 = {30, 1}, none;

/* What is found is of epoch 1. */
static void setup(void)
{
	coord_maker_setup_in(2);
}

TestSuite(coord_restore, .init = setup, .fini = coord_maker_teardown);

Test(coord_restore, memory_is_first_where_it_is_newest_on_all_nodes)
{
	ask(UINT64_MAX);
	cr_expect_eq(told[2].looked, 1);
	find_all(s30, 2);
	expect_bring(s30, false);
	for (uint32_t n = 0; n < NODES; n++)
		bring(n, s30, 0, WIRE_FROM_MEMORY, "");
	expect_restored(s30, WIRE_FROM_MEMORY);
}

Test(coord_restore, nothing_is_chosen_before_it_is_known_what_others_hold)
{
	ask(UINT64_MAX);
	for (uint32_t n = 0; n < NODES; n++)
		find(n, n == 1 ? none : s30, 0);
	cr_expect_eq(told[0].fetched, 0);
	survey(NULL, 0);
	cr_expect_eq(told[0].refusal, -ENOENT);
}

/* Ranks 1 and 4 are on node 1, which has begun anew. */
Test(coord_restore, what_one_node_lacks_comes_from_those_who_hold_copies)
{
	static const struct coord_held held[] = {{.node = 2, .rank = 1, .world = WORLD, .id = {30, 1}},
						 {.node = 0, .rank = 4, .world = WORLD, .id = {30, 1}},
						 {.node = 2, .rank = 4, .world = WORLD, .id = {30, 1}},
						 {.node = 2, .rank = 4, .world = WORLD + 1, .id = {40, 1}},
						 {.node = 0, .rank = 0, .world = WORLD, .id = {20, 1}}};
	ask(UINT64_MAX);
	find(0, s30, 2);
	survey(held, sizeof(held) / sizeof(held[0]));
	find(1, none, 2);
	find(2, s30, 2);
	expect_bring(s30, false);
	const struct peer_restore_fetch *b = &told[1].bring;
	cr_assert_eq(b->nholders, 3);
	cr_expect(b->holders[0].rank == 1 && b->holders[0].node == 2);
	cr_expect(b->holders[1].rank == 4 && b->holders[1].node == 0);
	cr_expect(b->holders[2].rank == 4 && b->holders[2].node == 2);
	cr_expect_eq(told[0].bring.nholders, 0);
	bring(0, s30, 0, WIRE_FROM_MEMORY, "");
	bring(1, s30, 0, WIRE_FROM_PEER, "rank 4 from node a: damaged");
	bring(2, s30, 0, WIRE_FROM_MEMORY, "");
	expect_restored(s30, WIRE_FROM_PEER);
	cr_expect(strstr(told[0].choice.why, "step 40 epoch 1 of a world of 7: nobody has the part of rank 0"));
	cr_expect(strstr(told[0].choice.why, "rank 4 from node a: damaged"));
}

Test(coord_restore, what_one_node_lacks_and_nobody_holds_comes_from_storage_for_all)
{
	ask(UINT64_MAX);
	find(0, s30, 2);
	find(1, none, 2);
	find(2, s30, 2);
	survey(NULL, 0);
	expect_bring(s20, true);
	bring_all(s20, -EBADMSG);
	bring_all(s10, 0);
	cr_expect_str_eq(told[0].choice.why,
			 "step 30 epoch 1: nobody has the part of rank 1; step 20 epoch 1: a sentence", "each once");
}

Test(coord_restore, an_older_step_in_all_memories_is_better_than_a_newer_one_in_some)
{
	const struct peer_restore_candidates both = {.nmemory = 2, .memory = {{20, 1}, {30, 1}}};
	ask(UINT64_MAX);
	coord_found(coord, from(0), &both);
	find(1, s20, 0);
	coord_found(coord, from(2), &both);
	survey(NULL, 0);
	expect_bring(s20, false);
	bring_all(s20, 0);
	cr_expect_str_eq(told[1].choice.why, "step 30 epoch 1: nobody has the part of rank 1");
}

Test(coord_restore, what_nobody_has_whole_is_named_when_nothing_is_left)
{
	ask(UINT64_MAX);
	find(0, s30, 0);
	find(1, none, 0);
	find(2, s30, 0);
	survey(NULL, 0);
	cr_expect_eq(told[0].refusal, -ENOENT);
	cr_expect_str_eq(told[0].why, "step 30 epoch 1: nobody has the part of rank 1");
}

Test(coord_restore, what_cannot_be_had_on_one_node_descends_for_all)
{
	ask(UINT64_MAX);
	find_all(none, 2);
	bring_all(s20, -EBADMSG);
	cr_expect_eq(told[0].restored, 0);
	expect_bring(s10, true);
	bring_all(s10, 0);
	expect_restored(s10, WIRE_FROM_STORAGE);
	cr_expect_str_eq(told[2].choice.why, "step 20 epoch 1: a sentence");
}

Test(coord_restore, memory_comes_before_what_is_older_on_storage)
{
	const struct step_id s15 = {15, 1};
	ask(UINT64_MAX);
	find_all(s15, 2);
	bring_all(s20, -EIO);
	expect_bring(s15, false);
}

Test(coord_restore, what_becomes_durable_meanwhile_is_better_than_what_was_found_older)
{
	const struct step_id s25 = {25, 1}, s26 = {26, 1};
	coord_restore_stored(coord, s26); /* no restore runs */
	ask(UINT64_MAX);
	find_all(s30, 2);
	expect_bring(s30, false);
	coord_restore_stored(coord, s25);
	bring_all(s30, -EBADMSG);
	expect_bring(s25, true);
	bring_all(s25, 0);
	expect_restored(s25, WIRE_FROM_STORAGE);
}

Test(coord_restore, nor_where_another_step_is_asked_for)
{
	const struct step_id s25 = {25, 1};
	ask(20);
	coord_restore_stored(coord, s25);
	find_all(none, 1);
	expect_bring(s20, true);
	bring_all(s20, -EBADMSG);
	cr_expect_eq(told[0].refusal, -EBADMSG);
}

Test(coord_restore, a_plan_that_cannot_be_is_no_reason_to_descend)
{
	ask(UINT64_MAX);
	find_all(none, 2);
	bring_all(s20, -EINVAL);
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(told[n].refusal, -EINVAL);
		cr_expect_str_eq(told[n].text, "a sentence");
	}
}

/* An older one would hide it, and retention what has gone on from there. */
Test(coord_restore, what_a_later_version_has_written_is_no_reason_to_descend)
{
	ask(UINT64_MAX);
	find_all(none, 2);
	bring_all(s20, -EPROTONOSUPPORT);
	cr_expect_eq(told[0].refusal, -EPROTONOSUPPORT);
	cr_expect_str_eq(told[0].text, "a sentence");
}

Test(coord_restore, nothing_to_restore_is_told_from_nothing_intact)
{
	ask(UINT64_MAX);
	find_all(none, 0);
	cr_expect_eq(told[1].refusal, -ENOENT);
	for (uint32_t n = 0; n < NODES; n++)
		coord_restoring(coord, from(n), UINT64_MAX);
	find_all(none, 1);
	bring_all(s20, -EBADMSG);
	cr_expect_eq(told[1].refusal, -EBADMSG);
	cr_expect_str_eq(told[1].text, "no intact checkpoint is left");
}

Test(coord_restore, no_node_alone_says_that_there_is_nothing)
{
	ask(UINT64_MAX);
	find_all(none, 1);
	bring_all(s20, -ENOENT);
	cr_expect_eq(told[1].refusal, -EBADMSG);
}

static void find_others(uint64_t step)
{
	ask(step);
	for (uint32_t n = 0; n < NODES; n++)
		coord_found(coord, from(n), &(struct peer_restore_candidates){.others = n == 1});
	survey(NULL, 0);
}

Test(coord_restore, what_was_not_asked_for_is_no_fresh_start)
{
	find_others(7);
	cr_expect_eq(told[0].refusal, -ENODATA);
	cr_expect(strstr(told[0].text, "none of step 7"), "%s", told[0].text);
}

Test(coord_restore, nor_is_what_nobody_called_healthy)
{
	find_others(STEP_NEWEST_HEALTHY);
	cr_expect_eq(told[0].refusal, -ENODATA);
	cr_expect(strstr(told[0].text, "healthy"), "%s", told[0].text);
}

/* A copy is not called healthy by anybody: it is a checkpoint nevertheless. */
Test(coord_restore, nor_are_copies_alone)
{
	static const struct coord_held held[] = {{.node = 2, .rank = 1, .world = WORLD, .id = {30, 1}}};
	ask(STEP_NEWEST_HEALTHY);
	for (uint32_t n = 0; n < NODES; n++)
		find(n, none, 0);
	survey(held, 1);
	cr_expect_eq(told[0].refusal, -ENODATA);
}

/* The coordinator has begun anew, and knows of no save; a part of one is there, the others may be where nobody answers. */
Test(coord_restore, a_part_of_a_step_shows_that_those_who_are_away_matter)
{
	ask(UINT64_MAX);
	for (uint32_t n = 0; n < NODES; n++)
		find(n, n == 1 ? none : s30, 0);
	coord_surveyed(coord, &(struct coord_survey){.epoch = from(0).epoch, .unheard = 1, .names = "n7"});
	cr_expect_eq(told[0].refusal, -EIO);
}

static void find_parted(unsigned nstored)
{
	for (uint32_t n = 0; n < NODES; n++)
		find(n, s30, nstored);
	coord_surveyed(coord, &(struct coord_survey){.epoch = from(0).epoch, .parted = true});
}

Test(coord_restore, what_only_memory_has_is_given_up_where_nodes_were_parted)
{
	ask(UINT64_MAX);
	find_parted(0);
	expect_bring(s30, false);
	bring_all(s30, -ESTALE);
	cr_expect_eq(told[1].refusal, -ENOENT);
	for (uint32_t n = 0; n < NODES; n++)
		coord_restoring(coord, from(n), UINT64_MAX);
	find_parted(1);
	bring_all(s30, -ESTALE);
	expect_bring(s20, true);
	bring_all(s20, -EBADMSG);
	cr_expect_eq(told[1].refusal, -EBADMSG, "that one was on storage");
}

/* It may be there yet, on a node that comes back: whoever begins anew has lost it for good. */
Test(coord_restore, what_is_damaged_is_no_fresh_start_where_nodes_were_parted)
{
	ask(UINT64_MAX);
	find_parted(0);
	bring_all(s30, -EBADMSG);
	cr_expect_eq(told[1].refusal, -EBADMSG);
}

static void find_unfit(uint32_t node)
{
	ask(UINT64_MAX);
	find_parted(0);
	for (uint32_t n = 0; n < NODES; n++)
		bring(n, s30, n == node ? -ESTALE : -EBADMSG, WIRE_FROM_MEMORY, "a sentence");
	cr_expect_eq(told[1].refusal, -ENOENT);
}

Test(coord_restore, what_fits_nobody_is_given_up_also_where_it_was_damaged_before_that_was_known)
{
	find_unfit(NODES - 1);
}

Test(coord_restore, what_fits_nobody_is_given_up_also_where_it_is_found_damaged_later)
{
	find_unfit(0);
}

/* Rank 0 of a world of one has been on a node that is gone; another holds its copy. */
static void find_elsewhere(unsigned nstored)
{
	static const struct coord_held held[] = {{.node = 2, .rank = 0, .world = 1, .id = {30, 1}}};
	ask(UINT64_MAX);
	struct coord_survey found = {.epoch = from(0).epoch, .found = held, .n = 1, .planned = true};
	for (uint32_t n = 0; n < NODES; n++)
		find(n, none, nstored);
	coord_surveyed(coord, &found);
}

/* Whoever has started other ranks may have changed the program. */
Test(coord_restore, copies_of_another_world_are_refused_where_no_plan_has_changed_it)
{
	static const struct coord_held held[] = {{.node = 2, .rank = 0, .world = 1, .id = {30, 1}}};
	ask(UINT64_MAX);
	for (uint32_t n = 0; n < NODES; n++)
		find(n, none, 2);
	survey(held, 1);
	cr_expect_eq(told[1].refusal, -EINVAL);
	cr_expect(strstr(told[1].text, "step 30 epoch 1") && strstr(told[1].text, "copies of a world of 1"), "%s",
		  told[1].text);
	cr_expect_eq(told[0].fetched, 0);
}

static const struct step_id elsewhere = {30, 1};

static void expect_recut(void)
{
	for (uint32_t n = 0; n < NODES; n++) {
		const struct peer_restore_fetch *b = &told[n].bring;
		cr_expect(b->recut && b->world == 1 && !step_compare(b->id, elsewhere) && !b->nholders);
	}
}

Test(coord_restore, copies_of_another_world_are_cut_anew)
{
	find_elsewhere(0);
	expect_recut();
	bring_all(elsewhere, 0);
	cr_expect_eq(told[1].refused, 0);
	cr_expect_eq(step_compare(told[1].choice.id, elsewhere), 0);
}

Test(coord_restore, nothing_older_takes_the_place_of_copies_of_another_world)
{
	find_elsewhere(2);
	expect_recut();
	bring_all(elsewhere, -EINVAL);
	cr_expect_eq(told[1].refusal, -EINVAL);
}

Test(coord_restore, damaged_copies_of_another_world_give_way_to_what_is_older)
{
	find_elsewhere(2);
	expect_recut();
	bring_all(elsewhere, -EBADMSG);
	cr_expect_eq(told[1].refused, 0);
	cr_expect_not(told[1].bring.recut);
	cr_expect_eq(step_compare(told[1].bring.id, s20), 0);
}

Test(coord_restore, damaged_copies_of_another_world_are_no_fresh_start)
{
	find_elsewhere(0);
	bring_all(elsewhere, -EBADMSG);
	cr_expect_eq(told[1].refusal, -EBADMSG);
}

/* One of the two parts; the node that may hold the other is not there. */
static void find_a_part_elsewhere(uint32_t unheard)
{
	static const struct coord_held held[] = {{.node = 2, .rank = 0, .world = 2, .id = {30, 1}}};
	struct coord_survey found = {
		.epoch = from(0).epoch, .found = held, .n = 1, .unheard = unheard, .names = "gone"};
	ask(UINT64_MAX);
	for (uint32_t n = 0; n < NODES; n++)
		find(n, none, 0);
	coord_surveyed(coord, &found);
}

Test(coord_restore, a_part_of_another_world_is_no_fresh_start_while_a_node_is_away)
{
	find_a_part_elsewhere(1);
	cr_expect_eq(told[1].refusal, -EIO);
	cr_expect(strstr(told[1].text, "not there: gone"), "%s", told[1].text);
}

Test(coord_restore, what_of_another_world_nobody_has_any_more_is_named)
{
	find_a_part_elsewhere(0);
	cr_expect_eq(told[1].refusal, -ENOENT);
	cr_expect(strstr(told[1].why, "step 30 epoch 1 of a world of 2: nobody has the part of rank 1"), "%s",
		  told[1].why);
}

/* They end, and those that it fits come after them. */
Test(coord_restore, what_ranks_were_refused_stays_for_others)
{
	find_elsewhere(2);
	bring_all(elsewhere, -EINVAL);
	cr_expect(coord_view(coord).unserved);
	for (uint32_t n = 0; n < NODES; n++)
		coord_restoring(coord, from(n), 20);
	for (uint32_t n = 0; n < NODES; n++)
		find(n, none, 1);
	survey(NULL, 0);
	bring_all(s20, 0);
	cr_expect_not(coord_view(coord).unserved, "they have gone on from something else");
}

Test(coord_restore, where_there_was_nothing_nothing_stays)
{
	ask(UINT64_MAX);
	find_all(none, 0);
	cr_expect_eq(told[0].refusal, -ENOENT);
	cr_expect_not(coord_view(coord).unserved);
}

Test(coord_restore, an_older_step_by_its_number_is_not_kept_back_by_them)
{
	static const struct coord_held held[] = {{.node = 2, .rank = 0, .world = 1, .id = {30, 1}}};
	ask(20);
	for (uint32_t n = 0; n < NODES; n++)
		find(n, none, 1);
	survey(held, 1);
	expect_bring(s20, true);
}

/* Whoever made this world has brought to storage what could be brought: the rest is still good, where all of it is there. */
Test(coord_restore, what_could_not_be_brought_to_storage_is_cut_anew)
{
	coord_preface(coord, "not all that was in memory is on storage");
	find_elsewhere(2);
	expect_recut();
}

Test(coord_restore, nothing_older_takes_the_place_of_copies_of_other_tables)
{
	ask(UINT64_MAX);
	find_all(s30, 2);
	bring_all(s30, -ESTALE);
	cr_expect_eq(told[1].refusal, -EINVAL);
	cr_expect(strstr(told[1].text, "step 30 epoch 1") && strstr(told[1].text, "copies of other tables"), "%s",
		  told[1].text);
}

Test(coord_restore, a_store_that_cannot_be_read_is_no_fresh_start)
{
	ask(UINT64_MAX);
	survey(NULL, 0);
	for (uint32_t n = 0; n < NODES; n++)
		coord_found(coord, from(n), &(struct peer_restore_candidates){.storage_rc = n == 2 ? -ENOENT : 0});
	cr_expect_eq(told[0].refusal, -EIO);
}

Test(coord_restore, nor_is_a_node_that_may_hold_copies_and_is_not_there)
{
	static const struct step_id saved = {10, 2};
	struct coord_survey unheard = {.unheard = 1, .names = "n7"};
	join_all();
	for (uint32_t n = 0; n < NODES; n++)
		coord_copied(coord, from(n), saved);
	for (uint32_t n = 0; n < NODES; n++)
		coord_reached(coord, from(n), saved, LEVEL_CAPTURED);
	coord_lost(coord, from(1), 1, true, "died");
	ask(UINT64_MAX);
	for (uint32_t n = 0; n < NODES; n++)
		find(n, none, 0);
	unheard.epoch = from(0).epoch;
	coord_surveyed(coord, &unheard);
	cr_expect_eq(told[0].refusal, -EIO);
	cr_expect(strstr(told[0].text, "not there: n7"), "%s", told[0].text);
}

Test(coord_restore, before_anything_was_saved_it_does_not_matter_who_is_there)
{
	ask(UINT64_MAX);
	for (uint32_t n = 0; n < NODES; n++)
		find(n, none, 0);
	coord_surveyed(coord, &(struct coord_survey){.epoch = 2, .unheard = 1, .names = "n7"});
	cr_expect_eq(told[0].refusal, -ENOENT);
}

Test(coord_restore, nodes_that_want_different_steps_are_refused)
{
	join_all();
	coord_restoring(coord, from(0), 10);
	coord_restoring(coord, from(1), 10);
	coord_restoring(coord, from(2), 20);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].refusal, -EINVAL);
}

Test(coord_restore, it_ends_for_all_when_the_epoch_is_raised_or_one_waits_no_longer)
{
	ask(UINT64_MAX);
	coord_not_restoring(coord, from(1));
	cr_expect_eq(told[0].refusal, -ETIMEDOUT);
	find_all(s30, 0); /* answers of the one that is over */
	cr_expect_eq(told[0].fetched, 0);
	for (uint32_t n = 0; n < NODES; n++)
		coord_restoring(coord, from(n), UINT64_MAX);
	coord_lost(coord, from(2), 2, true, "died");
	find_all(s30, 0);
	cr_expect_eq(told[0].fetched, 0);
}
