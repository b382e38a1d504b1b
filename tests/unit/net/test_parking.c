#include "cluster/link/parking.h"

#include "base/clock.h"

#include <criterion/criterion.h>

#define MS CLOCK_NS_PER_MS

enum { IDLE_MS = 20000, LIMIT_MS = 1500, TICK_MS = 20 };

static struct parking p;
static uint64_t now, begun;

static void setup(void)
{
	begun = now = 5000 * MS;
	parking_begin(&p, IDLE_MS * MS, now);
}

TestSuite(parking, .init = setup);

static void park(void)
{
	p.said = p.heard = true;
	parking_park(&p);
}

/* How long it is waited for, looking as often as the engine does. */
static uint64_t lost_after(uint64_t limit)
{
	uint64_t wanted = now;
	parking_want(&p, limit, TICK_MS * MS, now);
	while (!parking_is_lost(&p, now))
		now += TICK_MS * MS;
	return now - wanted;
}

Test(parking, it_is_tried_when_it_was_not_used_for_a_while)
{
	cr_expect_eq(p.at, begun + IDLE_MS * MS);
	parking_use(&p, begun + 7 * MS);
	cr_expect_eq(p.at, begun + (IDLE_MS + 7) * MS);
	cr_expect_gt(parking_due(&p), p.at, "the other end has time, too");
	cr_expect_lt(parking_due(&p), p.at + IDLE_MS * MS / 2);
}

Test(parking, what_is_to_stay_is_left_alone_for_longer)
{
	p.said = true;
	parking_stay(&p, now);
	cr_expect(!p.said && !p.heard);
	cr_expect_eq(p.at, begun + PARKING_AGAIN * IDLE_MS * MS);
	parking_use(&p, now);
	cr_expect_eq(p.at, begun + PARKING_AGAIN * IDLE_MS * MS, "a use makes it no earlier");
}

Test(parking, who_does_not_answer_is_lost_after_twice_the_limit)
{
	park();
	uint64_t took = lost_after(LIMIT_MS * MS);
	cr_expect_geq(took, 2 * LIMIT_MS * MS);
	cr_expect_leq(took, (2 * LIMIT_MS + 2 * TICK_MS) * MS);
}

Test(parking, a_short_limit_leaves_time_for_a_second_packet)
{
	park();
	cr_expect_geq(lost_after(200 * MS), 2 * PARKING_CALL_MS * MS);
}

Test(parking, who_is_not_wanted_is_never_lost)
{
	park();
	for (int i = 0; i < 1000; i++, now += 1000 * MS)
		cr_expect(!parking_is_lost(&p, now));
	cr_expect_eq(p.look_at, PARKING_NEVER);
}

/* As in silence.h. */
Test(parking, time_in_which_this_node_stood_still_proves_little)
{
	park();
	parking_want(&p, LIMIT_MS * MS, TICK_MS * MS, now);
	cr_expect(!parking_is_lost(&p, now + 3600 * 1000 * MS));
}

Test(parking, to_want_it_again_gives_no_more_time)
{
	park();
	parking_want(&p, LIMIT_MS * MS, TICK_MS * MS, now);
	for (; now < begun + LIMIT_MS * MS; now += TICK_MS * MS)
		(void)parking_is_lost(&p, now);
	cr_expect_leq(lost_after(LIMIT_MS * MS), (LIMIT_MS + 3 * TICK_MS) * MS);
}

Test(parking, the_first_doubt_says_when_it_is_called)
{
	park();
	parking_doubt(&p, now + 50 * MS);
	parking_doubt(&p, now + 90 * MS);
	cr_expect_eq(p.look_at, now + 50 * MS);
}

Test(parking, with_a_connection_it_begins_anew)
{
	park();
	parking_want(&p, LIMIT_MS * MS, TICK_MS * MS, now);
	parking_doubt(&p, now);
	parking_begin(&p, IDLE_MS * MS, now);
	cr_expect(!p.parked && !p.wanted && !p.said && !p.heard);
	cr_expect_eq(p.look_at, PARKING_NEVER);
	cr_expect_eq(p.at, now + IDLE_MS * MS);
}
