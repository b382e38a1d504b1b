/* All ranks stand still: which one the others wait for, on whatever node it is, is told to all nodes. */
#include "ckptd/coordinator/coordinator_maker.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct peer_silent at[NODES]; /* where the ranks of each node are */

/* All wait in the same collective. */
static void setup(void)
{
	coord_maker_setup();
	join_all();
	for (uint32_t n = 0; n < NODES; n++) {
		at[n] = (struct peer_silent){.n = EACH};
		for (uint32_t i = 0; i < EACH; i++) {
			at[n].of[i] = (struct suspect){.rank = n + i * NODES,
						       .is = {.beat_ns = 3 * CLOCK_NS_PER_S,
							      .step = 7,
							      .in_collective = true,
							      .collective = 9}};
			snprintf(at[n].of[i].is.op, FLIGHT_OP_MAX, "reduce");
		}
	}
}

TestSuite(coord_standstill, .init = setup, .fini = coord_maker_teardown);

static void say_of(struct coord_from who, const struct peer_silent *m)
{
	coord_input(coord, who, &(struct peer_report){.type = PEER_SILENT, .silent = *m});
	coord_standstill_tick(coord);
}

static void say(uint32_t node)
{
	say_of(from(node), &at[node]);
}

static void say_all(void)
{
	for (uint32_t n = 0; n < NODES; n++)
		say(n);
}

static void beats(uint32_t node)
{
	say_of(from(node), &(struct peer_silent){0});
}

static void pass_a_second(void)
{
	coord->standstill.told_ns -= CLOCK_NS_PER_S;
	coord_standstill_tick(coord);
}

/* All nodes were told so often, and the same at last. */
static void expect_told(uint32_t times)
{
	for (uint32_t n = 0; n < NODES; n++) {
		const struct peer_standstill *is = &told[n].standstill, *first = &told[0].standstill;
		cr_expect_eq(told[n].standstills, times, "node %u: %u", n, told[n].standstills);
		cr_expect(is->is == first->is && is->named == first->named && is->rank == first->rank &&
				  is->node == first->node && !strcmp(is->text, first->text),
			  "node %u", n);
	}
}

static void expect_named(uint32_t rank, uint32_t node, const char *text)
{
	const struct peer_standstill *is = &told[0].standstill;
	cr_expect(is->is && is->named, "%d %d", is->is, is->named);
	cr_expect_eq(is->rank, rank, "rank %u", is->rank);
	cr_expect_eq(is->node, node, "node %u", is->node);
	cr_expect(strstr(is->text, text), "%s", is->text);
	cr_expect_eq(is->epoch, 1u);
}

Test(coord_standstill, nothing_is_said_before_the_ranks_of_all_nodes_are_silent)
{
	at[2].of[1].is.in_collective = false;
	say(2);
	say(0);
	expect_told(0);
	say(1);
	expect_told(1);
	expect_named(5, 2, "last at step 7, in no collective; rank 0 and others are in reduce #9");
	cr_expect(told[1].standstill.silent_ns >= 3 * CLOCK_NS_PER_S &&
		  told[1].standstill.silent_ns < 60 * CLOCK_NS_PER_S);
}

Test(coord_standstill, when_the_last_node_is_silent_no_tick_is_waited_for)
{
	at[2].of[1].is.in_collective = false;
	say(0);
	say(1);
	coord_input(coord, from(2), &(struct peer_report){.type = PEER_SILENT, .silent = at[2]});
	expect_told(1);
	expect_named(5, 2, "in no collective");
}

Test(coord_standstill, a_mismatch_is_one_of_the_few_against_the_many)
{
	for (uint32_t i = 0; i < EACH; i++)
		at[1].of[i].is.bytes = 8; /* on its node all are alike */
	say_all();
	expect_told(1);
	expect_named(1, 1, "in reduce #9 of 8 bytes; rank 0 and others are in reduce #9 of 0 bytes");
}

Test(coord_standstill, the_rank_that_all_waited_for_is_lost_as_one_that_hung)
{
	at[2].of[1].is.in_collective = false;
	say_all();
	expect_named(5, 2, "in no collective");
	coord_lost(coord, from(1), 1, true, "died");
	cr_expect_eq(told[0].loss, LOST_RANK, "another one");
	join_all();
	for (uint32_t n = 0; n < NODES; n++)
		say_of(from(n), &at[n]);
	coord_lost(coord, from(2), 5, true, "was killed");
	cr_expect_eq(told[0].loss, LOST_HANG);
}

Test(coord_standstill, the_last_heartbeat_of_any_node_counts)
{
	at[0].of[0].is.beat_ns = UINT64_MAX; /* a hostile age */
	at[1].of[1].is.beat_ns = CLOCK_NS_PER_S;
	at[1].of[0].is.step = 6;
	say_all();
	expect_named(1, 1, "last at step 6");
	cr_expect(told[0].standstill.silent_ns >= CLOCK_NS_PER_S && told[0].standstill.silent_ns < 3 * CLOCK_NS_PER_S);
}

Test(coord_standstill, it_is_over_when_one_node_beats_and_may_begin_again)
{
	at[0].of[0].stopped = true;
	say_all();
	expect_told(1);
	expect_named(0, 0, "stopped");
	beats(1);
	expect_told(2);
	cr_expect_not(told[2].standstill.is);
	beats(0);
	expect_told(2);
	say(1);
	expect_told(2);
	say(0);
	expect_told(3);
	expect_named(0, 0, "stopped");
}

Test(coord_standstill, who_is_elsewhere_is_told_but_not_at_every_word)
{
	say_all();
	expect_told(1);
	cr_expect_not(told[0].standstill.named, "all wait alike");
	say(1);
	at[1].of[0].is.in_collective = false;
	say(1);
	expect_told(1);
	pass_a_second();
	expect_told(2);
	expect_named(1, 1, "in no collective");
	say(2);
	pass_a_second();
	expect_told(2); /* nothing has changed */
	at[1].of[0].is.in_collective = true;
	beats(2);
	expect_told(3);
	cr_expect_not(told[0].standstill.is, "the end does not wait");
}

Test(coord_standstill, ranks_of_others_or_too_few_or_twice_are_not_taken)
{
	say(0);
	say(1);
	struct peer_silent m = at[2];
	m.n = 1;
	say_of(from(2), &m);
	m = at[2];
	m.of[1].rank = 4; /* of node 1 */
	say_of(from(2), &m);
	m.of[1].rank = WORLD;
	say_of(from(2), &m);
	m = at[2];
	m.n = WIRE_LOCAL_MAX;
	say_of(from(2), &m);
	expect_told(0);
	say(2);
	expect_told(1);
	m.n = 1; /* whatever that node means: not that all its ranks are silent */
	say_of(from(2), &m);
	expect_told(2);
	cr_expect_not(told[0].standstill.is);
}

Test(coord_standstill, of_another_epoch_nothing_counts)
{
	say(0);
	say(1);
	struct coord_from earlier = from(2);
	coord_lost(coord, from(1), 4, true, "died");
	say_of(earlier, &at[2]);
	expect_told(0);
	say(2);
	expect_told(0);
	join_all();
	say(0);
	say(2);
	expect_told(0);
	say(1);
	expect_told(1);
	cr_expect_eq(told[0].standstill.epoch, 2u);
}

Test(coord_standstill, a_node_that_leaves_ends_it)
{
	at[0].of[0].stopped = true;
	say_all();
	expect_told(1);
	cr_assert(coord_leave(coord, 2));
	coord_standstill_tick(coord);
	cr_expect_eq(told[0].standstills, 2u);
	cr_expect_not(told[0].standstill.is);
	cr_expect_eq(told[2].standstills, 1u, "it has gone");
}

/* Whoever coordinates from now on hears all of it anew. */
Test(coord_standstill, another_coordinator_begins_anew)
{
	at[0].of[0].stopped = true;
	say_all();
	coord_free(coord);
	coord = NULL;
	coord_maker_take_over(7);
	say(0); /* nobody has gone on yet */
	for (uint32_t n = 0; n < NODES; n++) {
		struct peer_node_join m = {
			.world = WORLD, .nranks = EACH, .known = 7, .in = 7, .ranks = {n, n + NODES}};
		coord_input(coord, from(n), &(struct peer_report){.type = PEER_NODE_JOIN, .node_join = m});
	}
	cr_assert_eq(told[0].resumed, 7u);
	say(0);
	say(1);
	expect_told(0);
	say(2);
	expect_told(1);
}
