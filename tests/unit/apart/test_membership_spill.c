/* When a membership looks for what lost nodes had in memory, and for how long. */
#include "membership_maker.h"

#include "base/clock.h"

#include <criterion/criterion.h>

enum { SPILL_S = 20 };

TestSuite(membership_spill, .init = membership_maker_setup, .fini = membership_maker_teardown);

static void wait_s(uint64_t seconds)
{
	clock_skip(seconds * CLOCK_NS_PER_S);
	tick();
}

/* Three nodes with a store begin. */
static void begin_stored(void)
{
	membership_daemon.storage.root = 0;
	begin(3);
	fake_host.view.attending = WANT;
}

Test(membership_spill, what_a_node_had_is_looked_for_whose_launcher_was_lost_before_it)
{
	begin_stored();
	offer(1, 0);
	lose(1);
	cr_expect(!fake_host.holds, "it may come back");
	wait_s(WAIT_S + 1);
	cr_assert(fake_host.held);
	tick();
	cr_expect_eq(fake_host.spills, 1, "others may hold copies of it");
	cr_expect(!nodes[0].quiesce && !nodes[2].quiesce, "not before that has ended");
	fake_host.view.spilled = true;
	tick();
	cr_expect(nodes[0].quiesce && nodes[2].quiesce);
}

Test(membership_spill, nothing_is_looked_for_of_who_lost_its_launcher_alone)
{
	begin_stored();
	offer(1, 0);
	fake_host.view.attending -= EACH;
	wait_s(WAIT_S + 1);
	cr_assert(fake_host.held);
	cr_expect(!fake_host.spills && nodes[0].quiesce && nodes[1].quiesce && nodes[2].quiesce);
}

Test(membership_spill, who_does_not_answer_is_given_up_in_time)
{
	begin_stored();
	lose(1);
	wait_s(WAIT_S + 1);
	tick();
	cr_expect(fake_host.spills && !fake_host.given_up);
	wait_s(SPILL_S - 1);
	cr_expect(!fake_host.given_up);
	wait_s(2);
	cr_expect(fake_host.given_up);
}

Test(membership_spill, so_is_one_that_is_waited_for_when_another_node_is_lost)
{
	begin_stored();
	lose(1);
	wait_s(WAIT_S + 1);
	lose(2);
	wait_s(SPILL_S - 1);
	cr_expect(!fake_host.given_up, "who was lost last has its time");
	wait_s(2);
	cr_expect(fake_host.given_up, "its limit stands still");
}

Test(membership_spill, of_who_is_lost_after_it_began_it_looks_again)
{
	begin_stored();
	lose(1);
	wait_s(WAIT_S + 1);
	unsigned before = fake_host.spills;
	lose(2);
	fake_host.view.spilled = true;
	tick();
	cr_expect_eq(fake_host.spills, before + 2, "once more while the first runs, once anew");
	cr_expect(!nodes[0].quiesce);
}
