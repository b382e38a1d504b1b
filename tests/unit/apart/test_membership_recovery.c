#include "membership_maker.h"

#include "base/clock.h"

#include <criterion/criterion.h>

TestSuite(membership_adopt, .init = membership_maker_setup, .fini = membership_maker_teardown);

static struct peer_capacity said(uint32_t plan, uint32_t first)
{
	return (struct peer_capacity){.want = WANT,
				      .least = LEAST,
				      .processes = EACH,
				      .plan = plan,
				      .world = 4,
				      .n = EACH,
				      .ranks = {first, first + 1}};
}

Test(membership_adopt, a_restarted_coordinator_goes_on_with_the_plan_that_nodes_follow)
{
	struct peer_capacity a = said(7, 0), b = said(7, 2);
	report(0, &a);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 7);
	cr_expect(fake_host.remakes == 1 && fake_host.view.world == 4);
	tick();
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 7, "the others have their time to come");
	report(2, &b);
	clock_skip(100 * CLOCK_NS_PER_S);
	tick();
	cr_expect(membership_plan(&membership_daemon.control, "gpt") == 7 && !fake_host.holds && !nodes[0].told_plan &&
		  !nodes[2].told_plan);
}

static void report_idle(uint32_t node, uint32_t plan, uint32_t world)
{
	report(node,
	       &(struct peer_capacity){.want = WANT, .least = LEAST, .processes = EACH, .plan = plan, .world = world});
}

/* The coordinator had all the ranks, and is lost with its memory: who holds its copies has none. */
Test(membership_adopt, what_ranks_had_that_are_all_lost_with_the_coordinator_is_spilled)
{
	membership_daemon.storage.root = 0;
	report_idle(1, 7, EACH);
	report_idle(2, 7, EACH);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 0,
		     "who has ranks may come with the plan before it");
	report_idle(0, 0, 0);
	cr_expect(membership_plan(&membership_daemon.control, "gpt") == 7 && fake_host.view.world == EACH);
	fake_host.view.attending = 0;
	tick();
	cr_expect_eq(fake_host.holds, 0, "they may come");
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	tick();
	cr_expect(fake_host.held && fake_host.spills == 1 && membership_plan(&membership_daemon.control, "gpt") == 7);
	fake_host.view.spilled = true;
	tick();
	tick();
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 8);
	EXPECT_RANKS(0, 8, 6, 0, 1);
}

Test(membership_adopt, a_plan_whose_world_nobody_knows_is_only_counted)
{
	report_idle(1, 7, 0);
	report_idle(2, 6, 4);
	report_idle(0, 0, 0);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 8);
}

/* What the first has of a plan that is over means nothing now: it is given what nobody has claimed in time. */
Test(membership_adopt, the_latest_plan_that_anybody_follows_holds)
{
	struct peer_capacity old = said(6, 2), new = said(7, 2);
	report(0, &old);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 6);
	report(2, &new);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 7, "who has the others may come");
	cr_expect_not(nodes[0].told_plan, "what it has by that plan is not known yet");
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 8);
	EXPECT_RANKS(0, 8, 4, 0, 1);
	cr_expect_eq(nodes[0].plan.was[0], WIRE_NEW_PROCESS);
	EXPECT_RANKS(2, 8, 4, 2, 3);
	cr_expect_eq(nodes[2].plan.was[0], 2);
}

Test(membership_adopt, a_later_plan_does_not_end_a_save_that_is_under_way)
{
	struct peer_capacity old = said(6, 2), new = said(7, 4);
	new.world = WANT;
	report(0, &old);
	fake_host.busy = true;
	report(2, &new);
	cr_expect(membership_plan(&membership_daemon.control, "gpt") == 6 && fake_host.remakes == 1);
	fake_host.busy = false;
	report(2, &new);
	cr_expect(membership_plan(&membership_daemon.control, "gpt") == 7 && fake_host.view.world == WANT);
}

/* It was away while the coordinator lost all that it knew, and began to count again. */
Test(membership_adopt, a_later_plan_does_not_take_apart_a_job_that_is_at_work)
{
	struct peer_capacity back = said(7, 2);
	begin(3);
	fake_host.view.entered = fake_host.view.epoch;
	report(3, &back);
	cr_expect(membership_plan(&membership_daemon.control, "gpt") == 8 && !fake_host.held && fake_host.remakes == 1);
	EXPECT_RANKS(0, 8, 6, 0, 1);
	cr_expect(nodes[0].plan.was[0] == 0 && nodes[0].plan.was[1] == 1, "its processes go on");
	cr_expect(nodes[3].told_plan && nodes[3].plan.number == 8 && !nodes[3].plan.n, "others have them");
	follow();
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 8);
}

Test(membership_adopt, a_later_plan_of_who_has_ranks_in_this_one_takes_it_apart)
{
	struct peer_capacity on = said(7, 2);
	begin(3);
	fake_host.view.entered = fake_host.view.epoch;
	report(1, &on);
	cr_expect(membership_plan(&membership_daemon.control, "gpt") == 7 && fake_host.view.world == 4);
}

/* Some came when nobody here knew of a plan, with ranks that others may have by now. */
Test(membership_adopt, nobody_has_a_place_by_no_plan_in_the_one_that_holds)
{
	struct peer_capacity first = said(7, 2);
	fake_host.view = (struct coord_view){.epoch = 1, .world = 4, .attending = 2};
	report_idle(0, 0, 0);
	report(2, &first);
	cr_expect(membership_plan(&membership_daemon.control, "gpt") == 7 && fake_host.vacated == 1);
	cr_expect(nodes[0].told_plan && nodes[0].plan.number == 7 && !nodes[0].plan.n);
	cr_expect_not(nodes[2].told_plan, "it knows");
}

Test(membership_adopt, where_all_ranks_are_there_they_are_who_they_were)
{
	struct peer_capacity old = said(6, 0), new = said(7, 2);
	report(0, &old);
	unsigned vacated = fake_host.vacated;
	report(2, &new);
	cr_expect(membership_plan(&membership_daemon.control, "gpt") == 7 && fake_host.vacated == vacated &&
		  !nodes[0].told_plan);
}

/* The coordinator was lost before all had heard of plan 7: what node 0 has in memory is of it, too. */
static void expect_taken_up(void)
{
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 7);
	EXPECT_RANKS(0, 7, 4, 0, 1);
	cr_expect(nodes[0].plan.was[0] == 0 && nodes[0].plan.was[1] == 1, "its processes go on");
}

Test(membership_adopt, who_has_not_heard_of_the_plan_has_the_ranks_that_nobody_else_claims)
{
	struct peer_capacity old = said(6, 0), new = said(7, 2);
	report(0, &old);
	report(2, &new);
	expect_taken_up();
}

Test(membership_adopt, who_comes_with_an_older_plan_than_is_known_has_them_too)
{
	struct peer_capacity old = said(6, 0), new = said(7, 2);
	report(2, &new);
	report(0, &old);
	cr_expect_not(nodes[0].told_plan);
	expect_taken_up();
}

Test(membership_adopt, who_had_them_once_is_told_that_others_have_them)
{
	struct peer_capacity old = said(6, 0), new = said(7, 2), other = said(7, 0);
	report(0, &old);
	report(2, &new);
	report(1, &other);
	cr_expect(nodes[0].told_plan && nodes[0].plan.number == 7 && !nodes[0].plan.n);
}

/* It was asked, and says so, by the plan that it follows still. */
Test(membership_adopt, who_takes_ranks_up_while_all_settle_is_asked_again)
{
	struct peer_capacity a = said(6, 0), b = said(6, 2), new = said(7, 2);
	report(0, &a);
	report(1, &b);
	lose(1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_assert(fake_host.held && nodes[0].quiesce);
	nodes[0].quiesce = false;
	report(2, &new);
	cr_expect_not(nodes[0].quiesce, "what it has by that plan is not known yet");
	expect_taken_up();
	cr_assert(nodes[0].quiesce && nodes[2].quiesce);
	quiesced(0, 0);
	quiesced(2, 0);
	cr_expect_not(fake_host.held, "all are there");
}

/* While its node was away, another one that knew of no plan coordinated, and began to count again. */
Test(membership_adopt, two_plans_of_one_number_are_told_apart)
{
	struct peer_capacity here = said(7, 2), there = said(7, 0);
	there.world = EACH;
	report(2, &here);
	report(0, &there);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 8);
	cr_expect(nodes[0].told_plan && nodes[0].plan.number == 8 && !nodes[0].plan.n,
		  "what it has is of another world");
	EXPECT_RANKS(2, 8, 4, 2, 3);
	cr_expect_eq(nodes[2].plan.was[0], 2, "its processes go on");
	follow();
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	EXPECT_RANKS(0, 9, 4, 0, 1);
	cr_expect_eq(nodes[0].plan.was[0], WIRE_NEW_PROCESS);
}

Test(membership_adopt, ranks_without_a_plan_are_no_other_plan)
{
	struct peer_capacity came = said(0, 0);
	came.n = 0;
	report(0, &came);
	cr_expect(membership_plan(&membership_daemon.control, "gpt") == 0 && !nodes[0].told_plan);
}

/* It had heard of plan 8 before it could follow it. */
Test(membership_adopt, who_goes_on_to_a_plan_that_does_not_hold_has_no_rank_in_this_one)
{
	struct peer_capacity first = said(7, 0), second = said(7, 2);
	report(0, &first);
	report(2, &second);
	report_idle(2, 8, 4);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 9);
	EXPECT_RANKS(2, 9, 4, 2, 3);
	cr_expect_eq(nodes[2].plan.was[0], WIRE_NEW_PROCESS);
}

/* Nothing is taken apart for it, and who is not heard now has no rank later. */
Test(membership_adopt, a_later_plan_of_the_same_world_holds_whatever_is_under_way)
{
	struct peer_capacity old = said(6, 2), new = said(7, 2);
	report(0, &old);
	fake_host.busy = true;
	report(2, &new);
	cr_expect(membership_plan(&membership_daemon.control, "gpt") == 7 && fake_host.remakes == 1);
}

Test(membership_adopt, who_joins_with_other_ranks_than_were_planned_is_refused)
{
	struct err err = {{0}};
	begin(3);
	cr_expect_eq(membership_node_joins(&membership_daemon.control, "gpt", 1, EACH + 1, &err), -EINVAL);
	cr_expect_str_eq(err.text, "job 'gpt': node n1 comes with 3 ranks, and has 2 by plan 1");
	offer(1, 1);
	node_join(1); /* the launcher has given one of them up, and there is no other plan yet */
}
