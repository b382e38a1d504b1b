/* Which steps are saved: all nodes are told the same, whoever asks, and whoever coordinates. */
#include "ckptd/coordinator/coordinator_maker.h"

#include <criterion/criterion.h>
#include <string.h>

static void setup(void)
{
	coord_maker_setup();
	join_all();
}

TestSuite(schedule, .init = setup, .fini = coord_maker_teardown);

static void ask_with(uint32_t node, uint64_t step, struct schedule held, uint64_t every)
{
	struct peer_report r = {.type = PEER_SCHEDULE_WANTED};
	r.schedule_wanted = (struct peer_schedule_wanted){
		.step = step, .held = held, .memory_every = every, .storage_every = 4 * every, .steps = 16};
	coord_input(coord, from(node), &r);
}

static void ask(uint32_t node, uint64_t step, uint64_t every)
{
	ask_with(node, step, told[node].schedule, every);
}

/* orders 0: however often. */
static void expect_alike(uint32_t number, unsigned orders)
{
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(told[n].schedule.number, number, "node %u: %u", n, told[n].schedule.number);
		cr_expect_eq(memcmp(&told[n].schedule, &told[0].schedule, sizeof(told[0].schedule)), 0, "node %u", n);
		cr_expect(!orders || told[n].schedules == orders, "node %u: %u orders", n, told[n].schedules);
	}
}

Test(schedule, the_first_who_asks_decides_for_all)
{
	ask(1, 100, 8);
	expect_alike(1, 1);
	cr_expect(told[0].schedule.epoch == 1 && !told[0].schedule.from && told[0].schedule.until == 116);
	ask(2, 100, 3);
	cr_expect_eq(told[2].schedules, 2, "it is told again what holds");
	cr_expect(told[2].schedule.number == 1 && told[2].schedule.memory_every == 8);
	cr_expect_eq(told[0].schedules, 1);
}

Test(schedule, the_next_one_begins_where_the_last_ends)
{
	ask(1, 100, 8);
	struct schedule last = told[1].schedule;
	ask(0, last.wanted, 20);
	expect_alike(2, 2);
	cr_expect(told[2].schedule.from == last.until && told[2].schedule.memory_every == 20);
}

Test(schedule, of_another_epoch_nothing_is_decided_or_kept)
{
	ask(1, 100, 8);
	coord_lost(coord, from(1), 4, true, "died");
	ask(0, 200, 8);
	expect_alike(1, 1);
	join_all();
	ask(0, 90, 5);
	expect_alike(1, 2);
	cr_expect(told[0].schedule.epoch == 2 && told[0].schedule.memory_every == 5 && !told[0].schedule.from);
}

Test(schedule, before_all_have_entered_nothing_is_decided)
{
	coord_maker_teardown();
	coord_maker_setup();
	ask(1, 100, 8);
	cr_expect_eq(told[1].schedules, 0);
}

/* ---- another coordinator ----------------------------------------------------------------------------------------- */

enum { EPOCH = 7 };

static void take_over(void)
{
	coord_maker_teardown();
	coord_maker_take_over(EPOCH);
	for (uint32_t n = 0; n < NODES; n++) {
		struct peer_report r = {.type = PEER_NODE_JOIN};
		r.node_join = (struct peer_node_join){.world = WORLD, .nranks = EACH, .known = EPOCH, .in = EPOCH};
		for (uint32_t i = 0; i < EACH; i++)
			r.node_join.ranks[i] = n + i * NODES;
		coord_input(coord, from(n), &r);
	}
}

/* The one before died when it had told one node of the second. */
Test(schedule, who_takes_over_goes_on_behind_what_any_node_has)
{
	struct schedule one = schedule_next(&(struct schedule){0}, EPOCH, 50, 16, 8, 32),
			two = schedule_next(&one, EPOCH, one.wanted, 16, 2, 8);
	take_over();
	ask_with(0, one.wanted, one, 11);
	ask_with(2, UINT64_MAX, two, 11);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].schedules, 0, "not all have said what they have");
	ask_with(1, one.wanted, one, 11);
	expect_alike(2, 0); /* one of them was told twice */
	cr_expect_eq(memcmp(&told[0].schedule, &two, sizeof(two)), 0, "what one rank may have read holds");
	ask_with(1, two.wanted, two, 11);
	cr_expect(told[0].schedule.number == 3 && told[0].schedule.from == two.until);
}

Test(schedule, who_takes_over_where_nobody_has_any_begins)
{
	take_over();
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(told[0].schedules, 0);
		ask_with(n, n ? UINT64_MAX : 50, (struct schedule){0}, 8);
	}
	cr_expect_eq(told[0].schedules, 0, "who had asked asks again");
	ask_with(0, 50, (struct schedule){0}, 8);
	expect_alike(1, 1);
}

Test(schedule, what_a_node_has_of_another_epoch_does_not_count)
{
	struct schedule old = schedule_next(&(struct schedule){0}, EPOCH - 1, 50, 16, 8, 32);
	take_over();
	for (uint32_t n = 0; n < NODES; n++)
		ask_with(n, 50, old, 8);
	expect_alike(1, 1);
	cr_expect_eq(told[0].schedule.epoch, EPOCH);
}
