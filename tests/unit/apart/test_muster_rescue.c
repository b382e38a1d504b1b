/* When a muster looks for what lost nodes had in memory, and for how long. */
#include "muster_maker.h"

#include "base/clock.h"

#include <criterion/criterion.h>

enum { RESCUE_S = 20 };

TestSuite(muster_rescue, .init = muster_maker_setup, .fini = muster_maker_teardown);

static void wait_s(uint64_t seconds)
{
	clock_skip(seconds * CLOCK_NS_PER_S);
	tick();
}

/* Three nodes with a store begin. */
static void begin_stored(void)
{
	muster_daemon.root = 0;
	begin(3);
	fake_chair.view.attending = WANT;
}

Test(muster_rescue, what_a_node_had_is_looked_for_whose_launcher_was_lost_before_it)
{
	begin_stored();
	offer(1, 0);
	lose(1);
	cr_expect(!fake_chair.holds, "it may come back");
	wait_s(WAIT_S + 1);
	cr_assert(fake_chair.held);
	tick();
	cr_expect_eq(fake_chair.rescues, 1, "others may hold copies of it");
	cr_expect(!nodes[0].settle && !nodes[2].settle, "not before that has ended");
	fake_chair.view.rescued = true;
	tick();
	cr_expect(nodes[0].settle && nodes[2].settle);
}

Test(muster_rescue, nothing_is_looked_for_of_who_lost_its_launcher_alone)
{
	begin_stored();
	offer(1, 0);
	fake_chair.view.attending -= EACH;
	wait_s(WAIT_S + 1);
	cr_assert(fake_chair.held);
	cr_expect(!fake_chair.rescues && nodes[0].settle && nodes[1].settle && nodes[2].settle);
}

Test(muster_rescue, who_does_not_answer_is_given_up_in_time)
{
	begin_stored();
	lose(1);
	wait_s(WAIT_S + 1);
	tick();
	cr_expect(fake_chair.rescues && !fake_chair.given_up);
	wait_s(RESCUE_S - 1);
	cr_expect(!fake_chair.given_up);
	wait_s(2);
	cr_expect(fake_chair.given_up);
}

Test(muster_rescue, so_is_one_that_is_waited_for_when_another_node_is_lost)
{
	begin_stored();
	lose(1);
	wait_s(WAIT_S + 1);
	lose(2);
	wait_s(RESCUE_S - 1);
	cr_expect(!fake_chair.given_up, "who was lost last has its time");
	wait_s(2);
	cr_expect(fake_chair.given_up, "its limit stands still");
}

Test(muster_rescue, of_who_is_lost_after_it_began_it_looks_again)
{
	begin_stored();
	lose(1);
	wait_s(WAIT_S + 1);
	unsigned before = fake_chair.rescues;
	lose(2);
	fake_chair.view.rescued = true;
	tick();
	cr_expect_eq(fake_chair.rescues, before + 2, "once more while the first runs, once anew");
	cr_expect(!nodes[0].settle);
}
