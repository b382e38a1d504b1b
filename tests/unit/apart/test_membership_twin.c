/* Two coordinators that knew nothing of each other have made two plans of one number: who follows the other one has no part in this. */
#include <criterion/criterion.h>

#include "membership_maker.h"

#include "cluster/roster.h"

TestSuite(membership_twin, .init = membership_maker_setup, .fini = membership_maker_teardown);

/* The node follows a plan 1 in which it has EACH ranks from this one on. */
static void offer_twin(uint32_t node, uint32_t first)
{
	struct peer_capacity m = assignment_of(node, EACH);
	m.plan = 1;
	m.world = WANT;
	m.n = EACH;
	for (uint32_t i = 0; i < EACH; i++)
		m.ranks[i] = first + i;
	report(node, &m);
}

static void wait_is_over(void)
{
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
}

Test(membership_twin, ranks_of_a_node_that_is_lost_are_not_taken_up_by_it)
{
	begin(3);
	lose(1);
	offer_twin(3, 2);
	EXPECT_RANKS(3, 2, 6, 2, 3);
	cr_expect_eq(nodes[3].plan.was[0], WIRE_NEW_PROCESS, "what it has is of the other plan");
}

Test(membership_twin, a_rank_that_both_plans_give_it_is_not_kept)
{
	begin(3);
	follow();
	offer_twin(1, 3);
	wait_is_over();
	EXPECT_RANKS(1, 2, 6, 2, 3);
	cr_expect_eq(nodes[1].plan.was[0], WIRE_NEW_PROCESS);
	cr_expect_eq(nodes[1].plan.was[1], WIRE_NEW_PROCESS);
}

/* Nothing is on record: the first who claims a rank says which plan holds. */
Test(membership_twin, the_first_who_comes_says_which_plan_holds)
{
	offer_twin(0, 0);
	offer_twin(1, 1);
	offer_twin(2, 4);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 1);
	wait_is_over();
	EXPECT_RANKS(1, 2, 6, 2, 3);
	cr_expect_eq(nodes[1].plan.was[0], WIRE_NEW_PROCESS, "rank 2 of the other plan");
	cr_expect_eq(nodes[0].plan.was[0], 0);
	cr_expect_eq(nodes[2].plan.was[0], 4);
}

/* It was removed from the cluster while its daemon was away, and has joined anew, with the processes that it had. */
Test(membership_twin, the_same_node_under_another_number_is_none)
{
	struct roster_node *known = membership_daemon.peers.roster->nodes;
	begin(3);
	follow();
	lose(1);
	known[3] = known[1];
	known[1].port = 0;
	offer_twin(3, 2);
	wait_is_over();
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 1, "no rank is lost");
	node_join(3);
}
