#include "ckptd/coordinator/coordinator_maker.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct step_id s100 = {100, 1}, s110 = {110, 1};

/* All have entered epoch 1; node 2 is lost, and the world is held. */
static void lose_2(void)
{
	coord_maker_setup();
	join_all();
	coord_gone(coord, 2, "node 2 is lost");
	coord_hold(coord, "the world changes");
	coord_spill_begin(coord);
	cr_assert_eq(told[0].looked, 1);
	cr_assert_eq(told[1].looked, 1);
	cr_assert_eq(told[2].looked, 0);
}

/* What nodes 0 and 1 have in memory: `memory` (epoch 0: nothing); node `holder` the copies of node 2's ranks of `copied`. */
static void found(struct step_id memory, struct step_id stored, uint32_t holder, struct step_id copied)
{
	struct coord_held held[EACH];
	struct coord_survey survey = {.epoch = told[0].epoch, .found = held, .n = copied.epoch ? EACH : 0};
	for (uint32_t i = 0; i < EACH; i++)
		held[i] = (struct coord_held){.node = holder, .rank = 2 + i * NODES, .world = WORLD, .id = copied};
	for (uint32_t n = 0; n < 2; n++) {
		struct peer_restore_candidates f = {.nmemory = memory.epoch != 0, .memory = {memory}};
		f.nstored = stored.epoch != 0;
		f.stored[0] = stored;
		coord_found(coord, from(n), &f);
	}
	coord_surveyed(coord, &survey);
}

static void gathered(uint32_t writer, uint32_t owner, uint64_t what)
{
	coord_spilled(coord, writer,
		      &(struct peer_spilled){.owner = owner,
					     .phase = PEER_SPILL_GATHER,
					     .as = place.id,
					     .shares = {.n = 1, .of[0] = {.what = what, .cut = 1, .key = what}}});
}

/* As gathered, before the directory was made: under the name that was ordered. */
static void all_gathered(void)
{
	place.id = told[0].spills[0].as;
	gathered(0, 0, 7);
	gathered(1, 1, 7);
	cr_assert_eq(place.made, 0);
	gathered(1, 2, 9);
	cr_assert_eq(place.made, 1);
}

static void answer(uint32_t writer, uint32_t owner, enum peer_spill_phase phase)
{
	struct peer_spilled m = {.owner = owner, .phase = phase, .as = place.id};
	snprintf(m.part.node.name, sizeof(m.part.node.name), "n%u", owner);
	snprintf(m.part.node.file, sizeof(m.part.node.file), "node-n%u.json", owner);
	m.part.node.size = 10;
	coord_spilled(coord, writer, &m);
}

static void written(void)
{
	answer(0, 0, PEER_SPILL_WRITE);
	answer(1, 1, PEER_SPILL_WRITE);
	cr_assert_eq(place.sealed, 0);
	answer(1, 2, PEER_SPILL_WRITE);
}

TestSuite(coord_spill, .init = lose_2, .fini = coord_maker_teardown);

Test(coord_spill, who_holds_the_copies_writes_the_part_of_the_lost_node)
{
	found(s100, (struct step_id){50, 1}, 1, s100);
	cr_assert_eq(told[1].spill_orders, 2);
	struct peer_spill *deputy = &told[1].spills[2];
	cr_expect_eq(deputy->phase, PEER_SPILL_GATHER);
	cr_expect_eq(deputy->bring.id.step, 100);
	cr_expect_eq(deputy->as.step, 100);
	cr_expect_eq(deputy->as.epoch, told[0].epoch, "a name that was never used");
	cr_assert_eq(deputy->bring.nholders, EACH);
	cr_expect_eq(deputy->bring.holders[0].rank, 2);
	cr_expect_eq(deputy->bring.holders[0].node, 1);
	cr_expect_eq(told[0].spills[0].bring.holders[0].node, 0);
	cr_expect_eq(told[0].refused, 1, "nobody goes on to restore it");
	all_gathered();
	cr_expect_eq(place.id.epoch, told[0].epoch);
	cr_expect_eq(told[0].spills[0].phase, PEER_SPILL_GATHER, "written before there is a directory");
	coord_made(coord, place.id, false);
	cr_expect_eq(told[0].spills[0].phase, PEER_SPILL_WRITE);
	cr_expect_eq(told[0].spills[0].parts.of[0].part, 0);
	cr_expect_eq(told[0].spills[0].parts.of[0].parts, 2);
	cr_expect_eq(told[1].spills[1].parts.of[0].part, 1);
	cr_expect_eq(told[1].spills[2].parts.of[0].parts, 1, "it holds what the others do not");
	written();
	cr_assert_eq(place.sealed, 1);
	for (int n = 0; n < NODES; n++) {
		char name[16];
		snprintf(name, sizeof(name), "\"n%d\"", n);
		cr_expect(strstr(place.manifest, name), "%s is not in %s", name, place.manifest);
	}
	cr_expect_not(coord_view(coord).spilled);
	coord_sealed(coord, place.id);
	cr_expect(coord_view(coord).spilled);
	cr_expect_str_empty(coord_view(coord).not_spilled);
	cr_expect_eq(told[1].spills[2].phase, PEER_SPILL_STORED);
}

/* MANIFEST.json may stand there, or not. */
Test(coord_spill, what_may_not_be_on_storage_is_not_said_to_be)
{
	found(s100, (struct step_id){50, 1}, 1, s100);
	all_gathered();
	coord_made(coord, place.id, false);
	written();
	coord_spoiled(coord, place.id, -EIO, "input/output error");
	cr_expect_eq(place.dropped, 1);
	coord_left(coord, place.id, true);
	cr_expect_eq(told[1].spills[2].phase, PEER_SPILL_KEEP);
	cr_expect(coord_view(coord).spilled);
	cr_expect(strstr(coord_view(coord).not_spilled, "input/output error"));
}

Test(coord_spill, what_lacks_a_part_is_named_and_the_next_best_is_written)
{
	struct coord_held held[] = {{.node = 0, .rank = 2, .world = WORLD, .id = s100},
				    {.node = 0, .rank = 5, .world = WORLD, .id = s100}};
	for (uint32_t n = 0; n < 2; n++)
		coord_found(coord, from(n), &(struct peer_restore_candidates){.nmemory = 2, .memory = {s100, s110}});
	coord_surveyed(coord, &(struct coord_survey){.epoch = told[0].epoch, .found = held, .n = 2});
	cr_expect_eq(told[0].spills[2].bring.id.step, 100);
	cr_expect(strstr(coord_view(coord).not_spilled, "step 110 epoch 1: nobody has the part of rank 2"), "%s",
		  coord_view(coord).not_spilled);
}

Test(coord_spill, what_is_newest_on_storage_is_not_written_again)
{
	found(s100, s100, 1, s100);
	cr_expect(coord_view(coord).spilled);
	cr_expect_eq(told[1].spill_orders, 0);
	cr_expect_eq(told[0].refused, 1);
}

Test(coord_spill, without_copies_there_is_nothing_to_write)
{
	found(s100, (struct step_id){50, 1}, 1, (struct step_id){0});
	cr_expect(coord_view(coord).spilled);
	cr_expect_eq(told[0].spill_orders + told[1].spill_orders, 0);
	cr_expect(strstr(coord_view(coord).not_spilled, "nobody has the part of rank 2"));
}

Test(coord_spill, the_loss_of_who_holds_the_copies_ends_it)
{
	found(s100, (struct step_id){50, 1}, 1, s100);
	all_gathered();
	coord_made(coord, place.id, false);
	coord_gone(coord, 1, "node 1 is lost");
	cr_expect_eq(place.dropped, 1);
	cr_expect_not(coord_view(coord).spilled, "while its directory is there");
	coord_left(coord, place.id, false);
	cr_expect_eq(told[0].spills[0].phase, PEER_SPILL_CLEAR);
	cr_expect_eq(place.removed, 0);
	answer(0, 0, PEER_SPILL_CLEAR);
	cr_expect_eq(place.removed, 1);
	cr_expect(coord_view(coord).spilled);
	cr_expect(strstr(coord_view(coord).not_spilled, "a node that has a part of it is lost"));
}

Test(coord_spill, once_all_have_written_nobody_is_needed_any_more)
{
	found(s100, (struct step_id){50, 1}, 1, s100);
	all_gathered();
	coord_made(coord, place.id, false);
	written();
	coord_gone(coord, 1, "node 1 is lost");
	cr_expect_eq(place.dropped, 0);
	coord_sealed(coord, place.id);
	cr_expect(coord_view(coord).spilled);
	cr_expect_str_empty(coord_view(coord).not_spilled);
}

Test(coord_spill, what_one_cannot_bring_nobody_writes)
{
	found(s100, (struct step_id){50, 1}, 1, s100);
	struct peer_spilled m = {
		.owner = 2, .phase = PEER_SPILL_FAILED, .as = told[0].spills[0].as, .rc = -EBADMSG, .text = "damaged"};
	coord_spilled(coord, 0, &m);
	cr_expect_not(coord_view(coord).spilled, "of who does not have that part");
	coord_spilled(coord, 1, &m);
	cr_expect(coord_view(coord).spilled);
	cr_expect_eq(told[0].spills[0].phase, PEER_SPILL_KEEP);
	cr_expect_eq(place.made, 0);
	cr_expect(strstr(coord_view(coord).not_spilled, "damaged"));
}

Test(coord_spill, a_loss_while_it_looks_lets_it_look_again)
{
	coord_found(coord, from(0), &(struct peer_restore_candidates){.nmemory = 1, .memory = {s100}});
	coord_gone(coord, 1, "node 1 is lost");
	cr_expect_not(coord_view(coord).spilled);
	coord_spill_begin(coord);
	cr_expect_eq(told[0].looked, 2);
}

Test(coord_spill, who_does_not_answer_is_not_waited_for)
{
	coord_found(coord, from(0), &(struct peer_restore_candidates){.nmemory = 1, .memory = {s100}});
	coord_spill_give_up(coord);
	cr_expect(coord_view(coord).spilled);
	cr_expect(strstr(coord_view(coord).not_spilled, "not found out in time"));
	cr_expect_eq(told[0].refusal, -ECANCELED, "who has answered goes on");
}

/* It was being written, with a part of the node that is lost: it cannot be completed under its name. */
Test(coord_spill, what_was_on_its_way_to_storage_is_written_under_another_name)
{
	coord_maker_teardown();
	coord = NULL;
	coord_maker_setup();
	join_all();
	for (uint32_t n = 0; n < NODES; n++) {
		hold(n, 7, 1);
		coord_copied(coord, from(n), s100);
		coord_reached(coord, from(n), s100, LEVEL_CAPTURED);
	}
	coord_ready(coord, from(0), s100);
	cr_assert(place.made == 1 && !step_compare(place.id, s100));
	coord_made(coord, s100, false);
	cr_assert_eq(told[1].writes, 1);
	coord_prepared(coord, from(1), s100, &(struct peer_part){0});
	coord_gone(coord, 2, "node 2 is lost");
	coord_hold(coord, "the world changes");
	cr_expect_eq(place.dropped, 1);
	coord_left(coord, s100, false);
	for (uint32_t n = 0; n < 2; n++) {
		cr_expect(told[n].clears == 1 && !told[n].kept, "node %u deletes what it wrote", n);
		coord_cleared(coord, n, s100);
	}
	cr_expect_eq(place.removed, 1);
	place.made = 0;
	coord_spill_begin(coord);
	found(s100, (struct step_id){50, 1}, 1, s100);
	all_gathered();
	cr_expect(place.id.step == 100 && place.id.epoch == told[0].epoch && told[0].epoch == 2);
	coord_made(coord, place.id, false);
	written();
	coord_sealed(coord, place.id);
	cr_expect(coord_view(coord).spilled);
	cr_expect_str_empty(coord_view(coord).not_spilled);
}

/* Every rank had it before node 2 was lost. */
static void lose_2_with_a_save(void)
{
	coord_maker_teardown();
	coord = NULL;
	coord_maker_setup();
	join_all();
	for (uint32_t n = 0; n < NODES; n++) {
		coord_copied(coord, from(n), s100);
		coord_reached(coord, from(n), s100, LEVEL_CAPTURED);
	}
	coord_gone(coord, 2, "node 2 is lost");
	coord_hold(coord, "the world changes");
	coord_spill_begin(coord);
}

static void come_back(void)
{
	coord_node_join(coord, (struct coord_from){.node = 2, .epoch = 1}, EACH, 1);
	for (uint32_t n = 0; n < NODES; n++)
		hold(n, 7, 1);
	cr_assert_eq(coord_view(coord).attending, WORLD);
}

static void written_as_it_is(void)
{
	struct peer_part part = {.node = {.name = "n", .file = "node-n.json", .size = 10}};
	cr_assert(place.made == 1 && !step_compare(place.id, s100));
	coord_made(coord, s100, false);
	for (uint32_t n = 0; n < NODES; n++)
		coord_prepared(coord, from(n), s100, &part);
	cr_assert_eq(place.sealed, 1);
	coord_sealed(coord, s100);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].level, LEVEL_DURABLE);
}

static void all_found(struct step_id stored)
{
	struct peer_restore_candidates f = {.nmemory = 1, .memory = {s100}, .nstored = 1, .stored = {stored}};
	for (uint32_t n = 0; n < NODES; n++)
		coord_found(coord, from(n), &f);
	coord_surveyed(coord, &(struct coord_survey){.epoch = told[0].epoch});
}

Test(coord_spill, what_those_who_are_all_there_again_write_is_waited_for)
{
	lose_2_with_a_save();
	come_back();
	coord_spill_begin(coord);
	coord_ready(coord, from(0), s100);
	all_found((struct step_id){50, 1});
	cr_expect_eq(told[0].spill_orders, 0, "it would be written twice");
	cr_expect_not(coord_view(coord).spilled);
	cr_expect_eq(told[0].refused, 1);
	written_as_it_is();
	coord_spill_begin(coord);
	all_found(s100);
	cr_expect(coord_view(coord).spilled);
	cr_expect_eq(told[0].spill_orders, 0);
}

Test(coord_spill, what_is_spilled_is_not_written_by_who_comes_back)
{
	lose_2_with_a_save();
	found(s100, (struct step_id){50, 1}, 1, s100);
	come_back();
	coord_ready(coord, from(0), s100);
	all_gathered();
	coord_made(coord, place.id, false);
	written();
	coord_ready(coord, from(0), s100);
	cr_expect_eq(place.made, 1);
	coord_sealed(coord, place.id);
	cr_expect(coord_view(coord).spilled);
	cr_expect_eq(place.made, 1);
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect(!step_compare(told[n].failed, s100) && told[n].failure == -EALREADY);
		cr_expect_str_eq(told[n].text, "it is on storage, as one of epoch 2");
		told[n].failure = 0;
	}
	for (uint32_t n = 0; n < NODES; n++)
		coord_forgot(coord, n, s100);
	coord_ready(coord, from(0), s100); /* it was asked to flush what is newest */
	cr_expect_eq(place.made, 1);
	cr_expect_eq(told[0].failure, -EALREADY);
}

Test(coord_spill, where_it_fails_those_who_are_all_there_again_write)
{
	lose_2_with_a_save();
	found(s100, (struct step_id){50, 1}, 1, s100);
	come_back();
	coord_ready(coord, from(0), s100);
	struct peer_spilled m = {
		.owner = 2, .phase = PEER_SPILL_FAILED, .as = told[0].spills[0].as, .rc = -EBADMSG, .text = "damaged"};
	cr_assert_eq(place.made, 0);
	coord_spilled(coord, 1, &m);
	cr_expect(coord_view(coord).spilled);
	written_as_it_is();
}

/* Node 2 was lost while the coordinator was; the others have heard of epoch 1. Its ranks' copies are with node 1, and came from `owner`. */
static void restart_with(uint32_t owner, const struct peer_restore_candidates *memory)
{
	struct coord_held held[] = {{.node = 1, .rank = 2, .world = WORLD, .owner = owner, .id = s100},
				    {.node = 1, .rank = 5, .world = WORLD, .owner = owner, .id = s100},
				    {.node = 0, .rank = 5, .world = WORLD, .owner = 0, .id = {90, 1}}};
	coord_maker_teardown();
	coord = NULL;
	coord_maker_setup();
	coord_gone(coord, 2, "node 2 is lost");
	coord_node_join(coord, (struct coord_from){.node = 0}, EACH, 1);
	coord_hold(coord, "the world changes");
	coord_spill_begin(coord);
	for (uint32_t n = 0; n < 2; n++) {
		struct peer_restore_candidates f = *memory;
		f.nranks = EACH;
		f.ranks[0] = n;
		f.ranks[1] = n + NODES;
		coord_found(coord, from(n), &f);
	}
	coord_surveyed(coord, &(struct coord_survey){.epoch = told[0].epoch, .found = held, .n = 3});
}

static void restart(uint32_t owner)
{
	restart_with(owner, &(struct peer_restore_candidates){.nmemory = 1, .memory = {s100}});
}

Test(coord_spill, a_coordinator_that_was_restarted_asks_who_had_which_rank)
{
	restart(2);
	const struct peer_spill *deputy = &told[1].spills[2];
	cr_assert_eq(told[0].spill_orders + told[1].spill_orders, NODES, "%s", coord_view(coord).not_spilled);
	cr_expect(deputy->owner == 2 && deputy->phase == PEER_SPILL_GATHER && deputy->bring.nholders == EACH);
	cr_expect_eq(deputy->as.epoch, 2);
	all_gathered();
	coord_made(coord, place.id, false);
	written();
	coord_sealed(coord, place.id);
	cr_expect(coord_view(coord).spilled);
	cr_expect_str_empty(coord_view(coord).not_spilled);
}

/* Node 1 had node 2's ranks once, and sent their copies to itself; it has 110 of its own, of which nobody has copies. */
Test(coord_spill, who_once_sent_a_copy_is_not_taken_to_have_the_rank)
{
	restart_with(1, &(struct peer_restore_candidates){.nmemory = 2, .memory = {s100, s110}});
	const struct peer_spill *deputy = &told[1].spills[1];
	cr_assert_eq(told[0].spill_orders + told[1].spill_orders, 2, "%s", coord_view(coord).not_spilled);
	cr_expect_eq(deputy->bring.id.step, 100);
	cr_expect(strstr(coord_view(coord).not_spilled, "step 110 epoch 1: nobody has the part of rank 2"), "%s",
		  coord_view(coord).not_spilled);
}

Test(coord_spill, whose_ranks_nobody_can_tell_are_not_written)
{
	restart(UINT32_MAX);
	cr_expect_eq(told[0].spill_orders + told[1].spill_orders, 0);
	cr_expect(coord_view(coord).spilled);
	cr_expect(strstr(coord_view(coord).not_spilled, "which node had rank 2 is not known any more"), "%s",
		  coord_view(coord).not_spilled);
}

static void want(uint32_t node, uint32_t n, const uint32_t *ranks)
{
	struct peer_node_ready m = {.n = n};
	for (uint32_t i = 0; i < n; i++) {
		m.ranks[i] = ranks[i];
		m.lens[i] = 1;
		m.addresses[i * WIRE_ADDRESS_MAX] = (uint8_t)('a' + ranks[i]);
	}
	coord_joining(coord, from(node), &m);
}

/* As restart, and node 2 has come back with `n` ranks, which want to enter, before it is known what the others have in memory. */
static void restart_and_want(uint32_t n, const uint32_t *ranks)
{
	struct coord_held held[] = {{.node = 1, .rank = 2, .world = WORLD, .owner = 2, .id = s100},
				    {.node = 1, .rank = 5, .world = WORLD, .owner = 2, .id = s100}};
	coord_maker_teardown();
	coord = NULL;
	coord_maker_setup();
	coord_gone(coord, 2, "node 2 is lost");
	coord_node_join(coord, (struct coord_from){.node = 0}, EACH, 1);
	coord_node_join(coord, (struct coord_from){.node = 2}, n, 1);
	coord_hold(coord, "the world changes");
	coord_spill_begin(coord);
	want(2, n, ranks);
	for (uint32_t node = 0; node < 2; node++)
		coord_found(coord, from(node),
			    &(struct peer_restore_candidates){
				    .nranks = EACH, .ranks = {node, node + NODES}, .nmemory = 1, .memory = {s100}});
	struct peer_restore_candidates nothing = {.nranks = n};
	memcpy(nothing.ranks, ranks, n * sizeof(*ranks));
	coord_found(coord, from(2), &nothing);
	coord_surveyed(coord, &(struct coord_survey){.epoch = told[0].epoch, .found = held, .n = 2});
	cr_assert_eq(told[0].spill_orders + told[1].spill_orders, NODES, "%s", coord_view(coord).not_spilled);
	cr_expect_eq(told[1].spills[2].bring.nholders, EACH);
}

Test(coord_spill, who_had_a_rank_keeps_no_other_node_from_entering_with_it)
{
	restart_and_want(1, (uint32_t[]){2});
	want(1, EACH, (uint32_t[]){4, 5});
	cr_expect_eq(told[1].away, 0, "%s", told[1].text);
	want(0, EACH, (uint32_t[]){0, 2});
	cr_expect_eq(told[0].away, -EINVAL, "node 2 is there with it");
}

/* Ranks 0 and 1 of node 2 are of the next world. */
Test(coord_spill, who_wants_to_enter_with_a_rank_is_not_taken_to_have_had_it)
{
	restart_and_want(EACH, (uint32_t[]){0, 1});
	cr_expect_eq(told[0].spills[0].bring.holders[0].node, 0);
	cr_expect_eq(told[1].spills[1].bring.holders[0].node, 1);
}

Test(coord_spill, before_the_epoch_is_recorded_nothing_begins)
{
	coord_maker_teardown();
	coord = NULL;
	coord_maker_setup();
	join_all();
	slow_record = true;
	coord_gone(coord, 2, "node 2 is lost");
	coord_hold(coord, "the world changes");
	coord_spill_begin(coord);
	cr_expect_eq(told[0].looked, 0);
	record(2);
	coord_spill_begin(coord);
	cr_expect_eq(told[0].looked, 1);
}
