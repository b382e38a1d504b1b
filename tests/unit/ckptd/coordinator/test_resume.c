/* A coordinator that takes over: the epoch goes on if all ranks of the world come that are in it, and else the next one begins. */
#include "ckptd/coordinator/coordinator_maker.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { EPOCH = 7 };

static void take_over(void)
{
	coord_maker_take_over(EPOCH);
}

TestSuite(resume, .init = take_over, .fini = coord_maker_teardown);

/* What a node says that is in the epoch, with the ranks that it has. */
static struct peer_node_join at_work(uint32_t node)
{
	struct peer_node_join m = {.world = WORLD, .nranks = EACH, .known = EPOCH, .in = EPOCH};
	for (uint32_t i = 0; i < EACH; i++)
		m.ranks[i] = node + i * NODES;
	return m;
}

static void come(uint32_t node, struct peer_node_join m)
{
	coord_input(coord, from(node), &(struct peer_report){.type = PEER_NODE_JOIN, .node_join = m});
}

static void expect_nothing_said(void)
{
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect(!told[n].resumes && !told[n].raised && !told[n].joined && told[n].epoch == EPOCH, "node %u",
			  n);
	cr_expect(coord_view(coord).resuming);
	cr_expect_eq(coord_view(coord).epoch, EPOCH);
}

/* Those who had come are told of the next one, once, and nobody was told to go on. */
static void expect_next(uint32_t epoch, const char *why)
{
	cr_expect_eq(coord_view(coord).epoch, epoch);
	cr_expect(!coord_view(coord).resuming);
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(told[n].resumes, 0, "node %u goes on", n);
		if (!coord_has_joined(coord, n))
			continue;
		cr_expect_eq(told[n].raised, 1, "node %u", n);
		cr_expect_eq(told[n].epoch, epoch, "node %u", n);
		cr_expect_str_eq(told[n].text, why);
	}
}

Test(resume, when_all_ranks_have_come_the_epoch_goes_on)
{
	for (uint32_t n = 0; n < NODES; n++) {
		expect_nothing_said();
		come(n, at_work(n));
	}
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect(told[n].resumes == 1 && told[n].resumed == EPOCH && !told[n].raised, "node %u", n);
	struct coord_view v = coord_view(coord);
	cr_expect(v.epoch == EPOCH && v.entered == EPOCH && !v.resuming && !v.fresh);
	coord_resume_give_up(coord, "too late");
	cr_expect_eq(coord_view(coord).epoch, EPOCH);
	/* As any other epoch: it ends with a loss, and the next one is entered by all. */
	coord_lost(coord, from(1), 4, true, "died");
	cr_expect_eq(told[2].epoch, EPOCH + 1);
	cr_expect_eq(told[2].lost, 4);
	join_all();
	cr_expect_eq(told[0].joined, 1);
}

Test(resume, who_comes_twice_counts_once)
{
	come(0, at_work(0));
	come(0, at_work(0));
	come(1, at_work(1));
	expect_nothing_said();
	come(2, at_work(2));
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].resumes, 1, "node %u", n);
}

Test(resume, saves_are_counted_when_it_goes_on_and_not_before)
{
	const struct step_id id = {40, EPOCH};
	come(0, at_work(0));
	coord_reached(coord, from(0), id, LEVEL_CAPTURED);
	cr_expect_eq(told[0].level, 0);
	come(1, at_work(1));
	come(2, at_work(2));
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(told[n].level, 0);
		coord_reached(coord, from(n), id, LEVEL_CAPTURED);
	}
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].level, LEVEL_CAPTURED);
}

/* The last coordinator was lost before it had told all of them. */
Test(resume, all_hear_what_is_replicated_before_copies_of_something_newer_are_ordered)
{
	const struct step_id s30 = {30, EPOCH}, s40 = {40, EPOCH};
	struct peer_node_join knows = at_work(1);
	knows.replicated = s30;
	come(0, at_work(0));
	come(1, knows);
	come(2, at_work(2));
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(step_compare(told[n].kept_step, s30), 0, "node %u", n);
		cr_expect_eq(told[n].copies, 0);
	}
	for (uint32_t n = 0; n < NODES; n++)
		coord_reached(coord, from(n), s40, LEVEL_CAPTURED);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(step_compare(told[n].copied, s40), 0, "node %u", n);
}

static void prepare(uint32_t node, struct step_id id)
{
	struct peer_part part = {.node = {.size = 13}, .bytes = 100, .stored = 100, .files = 2};
	snprintf(part.node.name, sizeof(part.node.name), "n%u", node);
	name_node(part.node.name, part.node.file);
	coord_prepared(coord, from(node), id, &part);
}

static void expect_no_failure(void)
{
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect(!told[n].failure && !told[n].clears, "node %u: %s", n, told[n].text);
	cr_expect_eq(place.dropped, 0);
}

/* Nodes go on with what the last coordinator has ordered while the others are still on their way to this one. */
Test(resume, a_save_on_its_way_to_storage_gets_there_whoever_comes_last)
{
	const struct step_id id = {40, EPOCH};
	come(0, at_work(0));
	coord_ready(coord, from(0), id);
	prepare(0, id);
	come(1, at_work(1));
	prepare(1, id);
	come(2, at_work(2));
	expect_no_failure();
	cr_expect_eq(place.made, 0, "nothing is ordered before all have come");
	for (uint32_t n = 0; n < NODES; n++) {
		hold(n, 7, 1);
		prepare(n, id);
	}
	cr_expect_eq(place.made, 1);
	coord_made(coord, id, false);
	cr_expect_eq(place.sealed, 1);
	coord_sealed(coord, id);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].level, LEVEL_DURABLE, "node %u", n);
	expect_no_failure();
}

Test(resume, what_the_last_coordinator_was_told_to_be_copied_is_not_taken_for_skipped)
{
	const struct step_id s40 = {40, EPOCH}, s41 = {41, EPOCH};
	come(0, at_work(0));
	come(1, at_work(1));
	coord_copied(coord, from(1), s40);
	coord_copied(coord, from(0), s41); /* of the other one it has told before */
	come(2, at_work(2));
	for (uint32_t n = 0; n < NODES; n++) {
		coord_copied(coord, from(n), s40);
		coord_copied(coord, from(n), s41);
	}
	expect_no_failure();
}

/* The last coordinator has shown it as durable; one node reads it back, and is not there yet. */
Test(resume, what_was_on_storage_before_is_shown_as_verified_whatever_is_saved_meanwhile)
{
	const struct step_id s40 = {40, EPOCH}, s41 = {41, EPOCH};
	for (uint32_t n = 0; n < NODES; n++)
		come(n, at_work(n));
	coord_reached(coord, from(1), s40, LEVEL_VERIFIED);
	coord_reached(coord, from(2), s40, LEVEL_VERIFIED);
	for (uint32_t n = 0; n < NODES; n++)
		coord_copied(coord, from(n), s41);
	expect_no_failure();
	coord_reached(coord, from(0), s40, LEVEL_VERIFIED);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].level, LEVEL_VERIFIED, "node %u", n);
}

Test(resume, what_was_on_storage_before_does_not_fail_in_a_later_epoch)
{
	const struct step_id id = {40, EPOCH};
	for (uint32_t n = 0; n < NODES; n++)
		come(n, at_work(n));
	coord_lost(coord, from(1), 4, true, "died");
	coord_reached(coord, from(0), id, LEVEL_VERIFIED);
	expect_no_failure();
}

Test(resume, a_node_that_is_not_in_it_begins_the_next_one)
{
	struct peer_node_join changes[] = {at_work(2), at_work(2), at_work(2), at_work(2), at_work(2), at_work(2)};
	changes[0].in = 0;           /* not all of its ranks are at work */
	changes[1].in = EPOCH - 1;   /* they are, but where all had been before */
	changes[2].finished = true;  /* they have ended */
	changes[3].ranks[1] = 1;     /* another node has that one */
	changes[4].ranks[1] = WORLD; /* and nobody this one */
	changes[5].ranks[1] = 2;     /* it has that one already */
	for (unsigned i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		coord_maker_teardown();
		take_over();
		come(0, at_work(0));
		come(1, at_work(1));
		come(2, changes[i]);
		cr_expect_eq(told[0].raised, 1, "case %u", i);
		expect_next(EPOCH + 1, "a node of it comes from elsewhere since the coordinator was lost");
	}
}

Test(resume, a_node_that_knows_of_a_later_epoch_begins_one_after_that)
{
	struct peer_node_join m = at_work(2);
	m.known = EPOCH + 3;
	come(0, at_work(0));
	come(1, at_work(1));
	come(2, m);
	cr_expect_eq(coord_view(coord).epoch, EPOCH + 4, "no number is given twice");
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(told[n].resumes, 0);
		cr_expect_eq(told[n].epoch, EPOCH + 4, "node %u", n);
	}
}

Test(resume, what_a_node_says_in_another_epoch_than_its_own_does_not_count)
{
	coord_input(coord, (struct coord_from){.node = 0, .epoch = EPOCH - 1},
		    &(struct peer_report){.type = PEER_NODE_JOIN, .node_join = at_work(0)});
	cr_expect_eq(coord_view(coord).epoch, EPOCH + 1);
	come(1, at_work(1));
	come(2, at_work(2));
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].resumes, 0);
}

Test(resume, a_world_that_is_about_to_change_waits_for_nobody)
{
	come(0, at_work(0));
	come(1, at_work(1));
	coord_hold(coord, "the world changes");
	expect_next(EPOCH + 1, "the world changes");
	come(2, at_work(2));
	cr_expect_eq(told[2].resumes, 0);
	cr_expect_neq(coord_view(coord).entered, EPOCH + 1);
}

Test(resume, a_node_that_is_lost_before_all_have_come_is_told_as_the_loss)
{
	come(0, at_work(0));
	come(1, at_work(1));
	coord_gone(coord, 1, "node n1 is silent");
	expect_next(EPOCH + 1, "node n1 is silent");
	cr_expect_eq(told[0].lost, 1, "its first rank");
	come(1, at_work(1));
	come(2, at_work(2));
	cr_expect_eq(told[1].epoch, EPOCH + 1, "who comes later begins the next one, too");
	cr_expect_eq(told[2].epoch, EPOCH + 1);
	cr_expect_eq(told[2].resumes, 0);
}

Test(resume, a_rank_that_is_lost_before_all_have_come_is_a_loss)
{
	come(0, at_work(0));
	coord_lost(coord, (struct coord_from){.node = 0, .epoch = EPOCH - 1}, 3, true, "died");
	cr_expect_eq(coord_view(coord).epoch, EPOCH, "of an earlier epoch it is none");
	coord_lost(coord, from(0), 3, true, "died");
	expect_next(EPOCH + 1, "rank 3 is lost: died");
	cr_expect_eq(told[0].lost, 3);
}

Test(resume, who_leaves_or_begins_anew_begins_the_next_one)
{
	come(0, at_work(0));
	come(1, at_work(1));
	cr_expect(coord_leave(coord, 1));
	expect_next(EPOCH + 1, "the ranks of a node have left since the coordinator was lost");
	coord_maker_teardown();
	take_over();
	come(0, at_work(0));
	coord_want(coord, from(0), 3);
	expect_next(EPOCH + 1, "rank 3 joins");
	coord_maker_teardown();
	take_over();
	come(0, at_work(0));
	struct peer_node_ready m = {.n = EACH, .ranks = {0, NODES}};
	coord_joining(coord, from(0), &m);
	expect_next(EPOCH + 1, "a node joins");
}

Test(resume, who_does_not_come_in_time_is_not_waited_for)
{
	come(0, at_work(0));
	come(2, at_work(2));
	coord_resume_give_up(coord, "not all ranks came to the new coordinator");
	expect_next(EPOCH + 1, "not all ranks came to the new coordinator");
	come(1, at_work(1));
	cr_expect_eq(told[1].epoch, EPOCH + 1);
	join_all();
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].joined, 1, "the next one is entered as any other");
}

Test(resume, nobody_is_told_of_the_next_one_before_it_is_on_record)
{
	slow_record = true;
	come(0, at_work(0));
	coord_resume_give_up(coord, "not all ranks came to the new coordinator");
	come(1, at_work(1));
	cr_expect(!told[0].raised && !told[1].raised);
	record(EPOCH + 1);
	cr_expect(told[0].raised == 1 && told[1].raised == 1);
}

/* ---- what they have copied --------------------------------------------------------------------------------------- */

static struct peer_node_join with(struct peer_node_join m, uint64_t newest, uint64_t next)
{
	m.ncopied = next ? 2 : 1;
	m.copied[0].step = newest;
	m.copied[1].step = next;
	return m;
}

/* The same of a node that has lost a rank. */
static struct peer_node_join lost(struct peer_node_join m)
{
	m.in = 0;
	return m;
}

static void expect_captured(uint64_t step)
{
	for (uint32_t n = 0; n < NODES; n++)
		coord_reached(coord, from(n), (struct step_id){step, EPOCH}, LEVEL_CAPTURED);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect(told[n].level == LEVEL_CAPTURED && !told[n].failure, "node %u", n);
}

static void expect_lost(uint64_t step)
{
	coord_reached(coord, from(0), (struct step_id){step, EPOCH}, LEVEL_CAPTURED);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect(told[n].failure == -ESTALE && told[n].failed.step == step, "node %u", n);
}

/* It is the newest that all have: the others are a step apart. */
Test(resume, what_all_had_copied_goes_on_where_a_rank_is_lost)
{
	come(0, lost(with(at_work(0), 14, 13)));
	expect_nothing_said();
	come(1, with(at_work(1), 14, 13));
	expect_nothing_said();
	come(2, with(at_work(2), 13, 0));
	expect_next(EPOCH + 1, "a node of it comes from elsewhere since the coordinator was lost");
	expect_captured(13);
	expect_lost(14);
}

Test(resume, whoever_comes_last)
{
	come(1, with(at_work(1), 14, 0));
	come(2, with(at_work(2), 14, 0));
	expect_nothing_said();
	come(0, lost(with(at_work(0), 14, 0)));
	expect_next(EPOCH + 1, "a node of it comes from elsewhere since the coordinator was lost");
	expect_captured(14);
}

Test(resume, and_where_it_is_lost_before_all_have_come)
{
	come(0, with(at_work(0), 14, 0));
	coord_lost(coord, from(0), 3, true, "died");
	expect_nothing_said();
	coord_want(coord, from(0), 3);
	expect_nothing_said();
	come(1, with(at_work(1), 14, 0));
	come(2, with(at_work(2), 14, 0));
	expect_next(EPOCH + 1, "rank 3 is lost: died");
	cr_expect_eq(told[0].lost, 3);
	expect_captured(14);
}

/* Whoever was told of the next epoch has left the collectives, and what others copy then is garbage. */
Test(resume, what_is_said_when_the_next_one_has_begun_does_not_count)
{
	come(0, lost(with(at_work(0), 14, 0)));
	come(1, with(at_work(1), 14, 0));
	coord_resume_give_up(coord, "not all ranks came to the new coordinator");
	expect_next(EPOCH + 1, "a node of it comes from elsewhere since the coordinator was lost");
	come(2, with(at_work(2), 14, 0));
	expect_lost(14);
}

Test(resume, nobody_waits_for_those_of_whom_nothing_can_come)
{
	struct peer_node_join captured = lost(with(at_work(1), 14, 0));
	captured.copied[0].captured = true;
	come(1, captured);
	expect_next(EPOCH + 1, "a node of it comes from elsewhere since the coordinator was lost");
	coord_maker_teardown();
	take_over();
	come(0, with(at_work(0), 14, 0));
	come(1, lost(with(at_work(1), 13, 0)));
	expect_next(EPOCH + 1, "a node of it comes from elsewhere since the coordinator was lost");
}

Test(resume, what_one_knows_to_be_captured_the_others_are_told)
{
	struct peer_node_join captured = with(at_work(1), 14, 0);
	captured.copied[0].captured = true;
	come(0, with(at_work(0), 14, 0));
	come(1, captured);
	come(2, lost(with(at_work(2), 14, 0)));
	coord_reached(coord, from(0), (struct step_id){14, EPOCH}, LEVEL_CAPTURED);
	cr_expect_eq(told[0].level, LEVEL_CAPTURED);
}

Test(resume, what_they_had_copied_is_said_anew_where_the_epoch_goes_on)
{
	const struct step_id s14 = {14, EPOCH};
	for (uint32_t n = 0; n < NODES; n++)
		come(n, with(at_work(n), 14, 0));
	cr_expect_eq(told[0].resumes, 1);
	coord_lost(coord, from(1), 4, true, "died");
	coord_reached(coord, from(0), s14, LEVEL_CAPTURED);
	cr_expect_eq(told[0].failure, -ESTALE, "nobody has said so");
}
