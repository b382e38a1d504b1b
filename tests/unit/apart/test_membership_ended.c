/* Who follows a plan of a job that has ended: control/membership_ended.c. */
#include "membership_maker.h"

#include <criterion/criterion.h>

TestSuite(membership_ended, .init = membership_maker_setup, .fini = membership_maker_teardown);

static uint32_t plan_now(void)
{
	return membership_plan(&membership_daemon.control, "gpt");
}

static void is_over(void)
{
	membership_over(&membership_daemon.control, "gpt");
	fake_host.has = false;
}

/* Three nodes have ranks, and the last one has none. */
static void begin_with_spare(void)
{
	offer_spare(3);
	begin(3);
	cr_assert(plan_now() == 1 && nodes[3].plan.number == 1 && !nodes[3].plan.n);
	nodes[3].told_plan = false;
}

Test(membership_ended, who_waits_without_ranks_is_told_at_once)
{
	begin_with_spare();
	is_over();
	offer_spare(3);
	cr_expect(nodes[3].over && !nodes[3].told_plan);
	cr_expect_eq(plan_now(), 0, "nothing has begun for it");
}

/* A plan of no world is none, and whoever hears of one hangs up, comes again, and says the same. */
Test(membership_ended, whose_launcher_has_ended_is_told_at_once)
{
	begin_with_spare();
	is_over();
	report(3, &(struct peer_capacity){.want = WANT, .least = LEAST, .plan = 1});
	cr_expect(nodes[3].over && !nodes[3].told_plan);
}

Test(membership_ended, whose_ranks_are_at_work_is_told_first_that_it_has_none)
{
	begin_with_spare();
	is_over();
	offer(1, EACH);
	cr_expect(!nodes[1].over && nodes[1].told_plan);
	cr_expect(nodes[1].plan.number == 2 && nodes[1].plan.world == WANT && !nodes[1].plan.n);
	offer(1, EACH);
	cr_expect(nodes[1].over);
}
