#include "ckptd/coordinator/coordinator_maker.h"

#include <criterion/criterion.h>
#include <stdio.h>

static const struct step_id s10 = {10, 1}, s20 = {20, 1}, s30 = {30, 1};

TestSuite(coord_copy, .init = coord_maker_setup, .fini = coord_maker_teardown);

static void capture(struct step_id id)
{
	for (uint32_t n = 0; n < NODES; n++)
		coord_copied(coord, from(n), id);
	for (uint32_t n = 0; n < NODES; n++)
		coord_reached(coord, from(n), id, LEVEL_CAPTURED);
}

static void expect_order(struct step_id id, uint32_t count)
{
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(told[n].copies, count, "node %u: %u orders", n, told[n].copies);
		cr_expect_eq(step_compare(told[n].copied, id), 0);
	}
}

static void expect_level(enum level_shown level)
{
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].level, level, "node %u: %d", n, told[n].level);
}

static void reset_levels(void)
{
	for (uint32_t n = 0; n < NODES; n++)
		told[n].level = LEVEL_PENDING;
}

Test(coord_copy, copies_are_ordered_of_what_is_captured_everywhere)
{
	join_all();
	for (uint32_t n = 0; n < NODES; n++)
		coord_copied(coord, from(n), s10);
	coord_reached(coord, from(0), s10, LEVEL_CAPTURED);
	coord_reached(coord, from(1), s10, LEVEL_CAPTURED);
	cr_expect_eq(told[0].copies, 0);
	coord_reached(coord, from(2), s10, LEVEL_CAPTURED);
	expect_order(s10, 1);
	for (uint32_t n = 0; n < NODES; n++)
		coord_reached(coord, from(n), s10, LEVEL_REPLICATED);
	expect_level(LEVEL_REPLICATED);
}

Test(coord_copy, the_next_one_waits_until_all_have_answered_and_is_the_newest)
{
	join_all();
	capture(s10);
	capture(s20);
	capture(s30);
	coord_reached(coord, from(0), s10, LEVEL_REPLICATED);
	coord_reached(coord, from(0), s10, LEVEL_REPLICATED); /* twice is once */
	coord_uncopied(coord, from(1), s10);
	expect_order(s10, 1);
	coord_reached(coord, from(2), s10, LEVEL_REPLICATED);
	expect_order(s30, 2);
	expect_level(LEVEL_CAPTURED);
}

Test(coord_copy, what_another_one_took_the_place_of_is_never_shown)
{
	join_all();
	capture(s10);
	capture(s20);
	coord_uncopied(coord, from(1), s10);
	coord_reached(coord, from(0), s10, LEVEL_REPLICATED);
	coord_reached(coord, from(2), s10, LEVEL_REPLICATED);
	expect_order(s20, 2);
	coord_reached(coord, from(1), s10, LEVEL_REPLICATED); /* was on its way */
	expect_level(LEVEL_CAPTURED);
	for (uint32_t n = 0; n < NODES; n++)
		coord_reached(coord, from(n), s20, LEVEL_REPLICATED);
	expect_level(LEVEL_REPLICATED);
}

Test(coord_copy, a_copy_that_comes_late_counts_while_nothing_newer_is_ordered)
{
	join_all();
	capture(s10);
	coord_reached(coord, from(0), s10, LEVEL_REPLICATED);
	coord_reached(coord, from(2), s10, LEVEL_REPLICATED);
	coord_uncopied(coord, from(1), s10);
	expect_level(LEVEL_CAPTURED);
	coord_reached(coord, from(1), s10, LEVEL_REPLICATED); /* a node has come back */
	expect_level(LEVEL_REPLICATED);
}

static void put_on_storage(struct step_id id)
{
	coord_ready(coord, from(0), id);
	coord_made(coord, id, false);
	for (uint32_t n = 0; n < NODES; n++) {
		struct peer_part part = {.node = {.size = 13}, .files = 1};
		snprintf(part.node.name, sizeof(part.node.name), "n%u", n);
		name_node(part.node.name, part.node.file);
		coord_prepared(coord, from(n), id, &part);
	}
	coord_sealed(coord, id);
}

Test(coord_copy, it_is_told_also_of_what_is_on_storage_already)
{
	join_all();
	capture(s10);
	put_on_storage(s10);
	expect_level(LEVEL_DURABLE);
	reset_levels();
	for (uint32_t n = 0; n < NODES; n++)
		coord_reached(coord, from(n), s10, LEVEL_REPLICATED);
	expect_level(LEVEL_REPLICATED);
}

Test(coord_copy, and_of_what_could_not_be_written)
{
	join_all();
	capture(s10);
	coord_failed(coord, from(1), s10, true, -ENOSPC, "no space");
	for (uint32_t n = 0; n < NODES; n++)
		coord_reached(coord, from(n), s10, LEVEL_REPLICATED);
	expect_level(LEVEL_REPLICATED);
}

static void restore_all(struct step_id id, uint64_t step)
{
	struct peer_restore_candidates found = {.nmemory = 1, .memory = {id}};
	for (uint32_t n = 0; n < NODES; n++)
		coord_restoring(coord, from(n), step);
	for (uint32_t n = 0; n < NODES; n++)
		coord_found(coord, from(n), &found);
	coord_surveyed(coord, &(struct coord_survey){.epoch = from(0).epoch});
	for (uint32_t n = 0; n < NODES; n++)
		coord_fetched(coord, from(n), &(struct peer_save){.id = id, .level = WIRE_FROM_MEMORY});
}

Test(coord_copy, a_new_epoch_forgets_what_was_ordered_and_copies_what_it_restores)
{
	join_all();
	capture(s10);
	coord_lost(coord, from(1), 1, true, "died");
	for (uint32_t n = 0; n < NODES; n++)
		coord_reached(coord, (struct coord_from){.node = n, .epoch = 1}, s10, LEVEL_REPLICATED);
	expect_level(LEVEL_CAPTURED);
	join_all();
	restore_all(s10, UINT64_MAX);
	expect_order(s10, 2);
	for (uint32_t n = 0; n < NODES; n++)
		coord_reached(coord, from(n), s10, LEVEL_REPLICATED);
	expect_level(LEVEL_REPLICATED);
}

/* What is lent, what was replicated and what is copied are three slots, and there may be no more. */
Test(coord_copy, what_a_restore_has_passed_over_is_not_copied_any_more)
{
	static const struct step_id s20_2 = {20, 2};
	join_all();
	capture(s10);
	capture(s20);
	capture(s30);
	coord_lost(coord, from(1), 1, true, "died");
	join_all();
	restore_all(s10, s10.step);
	expect_order(s10, 2);
	for (uint32_t n = 0; n < NODES; n++)
		coord_reached(coord, from(n), s10, LEVEL_REPLICATED);
	expect_order(s10, 2);
	reset_levels();
	capture(s20_2);
	expect_order(s20_2, 3);
}

static void expect_kept(struct step_id id)
{
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(step_compare(told[n].kept_step, id), 0, "node %u: step %lu", n,
			     (unsigned long)told[n].kept_step.step);
}

Test(coord_copy, what_one_node_was_told_by_an_earlier_coordinator_is_kept_by_all)
{
	coord_recall(coord, s20);
	expect_kept(s20);
	coord_recall(coord, s20); /* said again; on_keep takes nothing that is not newer */
	coord_recall(coord, s10);
	coord_recall(coord, (struct step_id){0});
	coord_recall(coord, s30);
	expect_kept(s30);
	expect_level(LEVEL_PENDING); /* copies may have been lost since */
}

Test(coord_copy, who_joins_hears_what_is_kept_before_another_epoch)
{
	join_all();
	capture(s10);
	for (uint32_t n = 0; n < NODES; n++)
		coord_reached(coord, from(n), s10, LEVEL_REPLICATED);
	coord_gone(coord, 1, "lost");
	told[1] = (struct told){.epoch = 1};
	coord_input(coord, from(1),
		    &(struct peer_report){.type = PEER_NODE_JOIN, .node_join = {.nranks = EACH, .known = 1}});
	cr_expect_eq(step_compare(told[1].kept_step, s10), 0);
	cr_expect_eq(told[1].kept_in, 1);
	cr_expect_eq(told[1].epoch, 2);
	cr_expect_eq(told[1].level, LEVEL_PENDING);
}
