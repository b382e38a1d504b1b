#include "membership_maker.h"
#include "plan_on_record.h"

#include "base/clock.h"

#include <criterion/criterion.h>

TestSuite(membership_record, .init = plan_on_record_setup, .fini = plan_on_record_teardown);

/* ---- before anybody is told ---------------------------------------------------------------------------------------- */

Test(membership_record, nobody_is_told_of_a_plan_before_it_is_on_record)
{
	begin(3);
	tick();
	cr_expect_eq(plan_now(), 1);
	for (uint32_t n = 0; n < 3; n++)
		cr_expect_not(nodes[n].told_plan);
	recorded(1);
	EXPECT_RANKS(1, 1, 6, 2, 3);
}

Test(membership_record, what_was_recorded_of_another_plan_tells_nobody)
{
	begin(3);
	recorded(2);
	cr_expect_not(nodes[0].told_plan);
}

Test(membership_record, who_comes_meanwhile_is_told_with_the_others)
{
	begin(3);
	recorded(1);
	follow();
	lose(1);
	offer(3, EACH);
	cr_expect_eq(plan_now(), 2);
	offer(0, EACH); /* by the plan before */
	tick();
	cr_expect(nodes[0].plan.number == 1 && nodes[3].plan.number == 1 && !nodes[3].plan.n);
	recorded(2);
	EXPECT_RANKS(0, 2, 6, 0, 1);
	EXPECT_RANKS(3, 2, 6, 2, 3);
}

Test(membership_record, the_next_plan_waits_for_the_record_of_the_last_one)
{
	begin(3);
	lose(1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(plan_now(), 1);
	recorded(1);
	tick();
	cr_expect(fake_host.held, "a rank is lost");
}

Test(membership_record, a_store_that_refuses_for_the_moment_ends_nothing)
{
	fake_host.slow = false;
	fake_host.remake_rc = -EIO;
	begin(3);
	cr_expect_eq(nodes[1].away, 0, "%s", nodes[1].text);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 1);
	tick();
	cr_expect_not(nodes[1].told_plan, "it is not on record");
	fake_host.remake_rc = 0;
	clock_skip(2 * CLOCK_NS_PER_S);
	tick();
	EXPECT_RANKS(1, 1, 6, 2, 3);
}

Test(membership_record, a_record_says_which_node_has_which_ranks)
{
	struct plan_record plan;
	begin(3);
	cr_assert_eq(membership_plan_record(&membership_daemon.control, "gpt", &plan), 0);
	cr_assert(plan.number == 1 && plan.world == 6 && plan.nruns == 3);
	for (uint32_t i = 0; i < 3; i++)
		cr_expect(plan.runs[i].node[1] == (char)('0' + i) && plan.runs[i].n == EACH &&
			  plan.runs[i].was == PLAN_NEW);
	plan_record_free(&plan);
}

/* ---- another daemon ------------------------------------------------------------------------------------------------ */

Test(membership_record, the_plan_on_record_goes_on)
{
	put_on_record();
	says(0, 7, 4, 0);
	cr_expect(plan_now() == 7 && fake_host.view.world == 4);
	says(2, 7, 4, 2);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect(plan_now() == 7 && !fake_host.held && !nodes[0].told_plan && !nodes[2].told_plan);
}

/* The coordinator was lost between the record and the first message. */
Test(membership_record, of_a_plan_that_nobody_has_heard_of_all_are_told)
{
	put_on_record();
	says(2, 6, WANT, 4);
	says(0, 6, WANT, 0);
	cr_expect_eq(plan_now(), 7);
	EXPECT_RANKS(0, 7, 4, 0, 1);
	EXPECT_RANKS(2, 7, 4, 2, 3);
	cr_expect(nodes[0].plan.was[1] == 1 && nodes[2].plan.was[0] == 4 && nodes[2].plan.was[1] == 5,
		  "their processes go on");
	follow();
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect(plan_now() == 7 && !fake_host.held);
}

/* Between the message to one node and the one to the other. */
Test(membership_record, who_has_not_heard_of_it_is_told_at_once)
{
	put_on_record();
	says(0, 7, 4, 0);
	says(2, 6, WANT, 4);
	EXPECT_RANKS(2, 7, 4, 2, 3);
	cr_expect(nodes[2].plan.was[0] == 4 && !nodes[0].told_plan);
	says_idle(3, 6);
	cr_expect(nodes[3].told_plan && nodes[3].plan.number == 7 && !nodes[3].plan.n);
}

Test(membership_record, whose_processes_are_of_an_older_plan_begins_with_new_ones)
{
	put_on_record();
	says(0, 7, 4, 0);
	says(2, 5, WANT, 4);
	EXPECT_RANKS(2, 7, 4, 2, 3);
	cr_expect_eq(nodes[2].plan.was[0], WIRE_NEW_PROCESS);
}

/* It waited as a spare, or was started anew. */
Test(membership_record, who_had_no_rank_yet_is_told_and_begins_with_new_processes)
{
	for (uint32_t plan = 0; plan < 7; plan += 6) {
		put_on_record();
		says(0, 7, 4, 0);
		says_idle(2, plan);
		cr_expect_eq(plan_now(), 7);
		EXPECT_RANKS(2, 7, 4, 2, 3);
		cr_expect_eq(nodes[2].plan.was[0], WIRE_NEW_PROCESS);
		memberships_free(&membership_daemon.control);
	}
}

Test(membership_record, what_a_node_cannot_have_any_more_is_lost)
{
	put_on_record();
	says(0, 7, 4, 0);
	report(2, &(struct peer_capacity){.want = WANT, .least = LEAST, .processes = 1});
	cr_expect(nodes[2].plan.number == 7 && !nodes[2].plan.n);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect(fake_host.held && nodes[0].quiesce && !nodes[2].quiesce);
}

Test(membership_record, what_a_node_has_is_lost_when_it_does_not_come_in_time)
{
	put_on_record();
	says(0, 7, 4, 0);
	tick();
	cr_expect_not(fake_host.held);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect(fake_host.held && nodes[0].quiesce);
	says(2, 6, WANT, 4);
	cr_expect(nodes[2].quiesce && nodes[2].plan.number == 7, "it is back, and is to end what it has under way");
}

/* What it had by an older plan may be all that is left of it, and it has no launcher that would ask. */
Test(membership_record, who_has_no_rank_by_it_is_told_although_it_offers_nothing)
{
	put_on_record();
	fake_registry.up[1] = true;
	says(0, 7, 4, 0);
	cr_expect(nodes[1].told_plan && nodes[1].plan.number == 7 && !nodes[1].plan.n);
	cr_expect(!nodes[2].told_plan, "it says first what it has");
	cr_expect(!nodes[3].told_plan, "it is not there");
	membership_joins_by(&membership_daemon.control, "gpt", 3, 6);
	read_orders();
	cr_expect(!nodes[3].told_plan, "it is not known yet who has what");
	says(2, 7, 4, 2);
	membership_joins_by(&membership_daemon.control, "gpt", 2, 6);
	tick(); /* node 3 does not join again */
	cr_expect(!nodes[2].told_plan);
	cr_expect(nodes[3].told_plan && nodes[3].plan.number == 7 && !nodes[3].plan.n);
}

static void with_registry(void)
{
	static char registry; /* nobody looks into it */
	membership_daemon.control.registry = (struct registry *)&registry;
	fake_registry.synced = true;
	fake_registry.up[0] = fake_registry.up[1] = true;
}

static void spare_comes(uint32_t node)
{
	report(node, &(struct peer_capacity){.want = WANT, .least = LEAST, .processes = EACH, .spare = true});
}

Test(membership_record, for_a_daemon_that_is_not_there_nobody_waits_where_others_have_room)
{
	put_on_record();
	with_registry();
	says(0, 7, 4, 0);
	tick();
	cr_expect_eq(plan_now(), 7, "nobody has room: a spare may have yet to say what it offers");
	spare_comes(1);
	cr_expect_eq(plan_now(), 8);
	recorded(8);
	EXPECT_RANKS(1, 8, 4, 2, 3);
	cr_expect(nodes[2].told_plan && nodes[2].plan.number == 8 && !nodes[2].plan.n, "it has said nothing");
}

Test(membership_record, a_daemon_that_is_there_is_waited_for)
{
	put_on_record();
	with_registry();
	fake_record("nodes/n2", false);
	says(0, 7, 4, 0);
	spare_comes(1);
	tick();
	cr_expect_eq(plan_now(), 7, "it has yet to call");
	fake_record_gone("nodes/n2");
	fake_registry.up[2] = true;
	tick();
	cr_expect_eq(plan_now(), 7, "it has called, and has yet to say what it has");
	fake_registry.up[2] = false;
	tick();
	cr_expect_eq(plan_now(), 8);
}

Test(membership_record, without_a_registry_a_daemon_is_waited_for)
{
	put_on_record();
	says(0, 7, 4, 0);
	spare_comes(1);
	tick();
	cr_expect_eq(plan_now(), 7);
}

Test(membership_record, where_nobody_follows_a_plan_the_job_begins_with_the_next_one)
{
	put_on_record();
	begin(3);
	cr_expect_eq(plan_now(), 8);
	recorded(8);
	EXPECT_RANKS(0, 8, 6, 0, 1);
}

Test(membership_record, a_node_that_is_not_in_the_roster_any_more_is_waited_for)
{
	put_on_record();
	fake_host.begun.plan.runs[1].node[1] = '9';
	says(0, 7, 4, 0);
	tick();
	cr_expect_not(fake_host.held);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect(fake_host.held);
}

Test(membership_record, a_plan_of_a_larger_job_of_that_name_is_only_counted)
{
	put_on_record();
	for (uint32_t r = 4; r <= WANT; r++)
		cr_assert_eq(plan_record_add(&fake_host.begun.plan, "n3", PLAN_NEW), 0);
	says_idle(1, 5);
	says_idle(2, 0);
	says_idle(0, 0);
	cr_expect_eq(plan_now(), 8);
}

/* ---- what cannot be read ------------------------------------------------------------------------------------------- */

/* The next job of that name counts on from the plans of the last one, and has none yet. */
Test(membership_record, who_follows_a_plan_of_a_job_that_is_over_is_told_of_none_before_there_is_one)
{
	fake_host.begun.ended = 3;
	offer(1, EACH);
	membership_joins_by(&membership_daemon.control, "gpt", 0, 1);
	read_orders();
	cr_expect_not(nodes[0].told_plan);
}

Test(membership_record, a_damaged_record_is_told_to_the_launcher)
{
	fake_host.last_rc = -EBADMSG;
	offer(0, EACH);
	cr_expect_eq(nodes[0].away, -EBADMSG);
	cr_expect_str_eq(nodes[0].text, "job 'gpt': its last plan cannot be read: EPOCH: damaged");
	cr_expect_null(membership_daemon.control.memberships);
}

Test(membership_record, a_record_that_cannot_be_read_for_the_moment_is_read_later)
{
	put_on_record();
	fake_host.last_rc = -EIO;
	says(0, 7, 4, 0);
	cr_expect(fake_host.refused == 1 && !nodes[0].away && !membership_daemon.control.memberships);
	fake_host.last_rc = 0;
	says(0, 7, 4, 0);
	cr_expect_eq(plan_now(), 7);
}
