#include "membership_maker.h"

#include "base/clock.h"

#include <criterion/criterion.h>

static void setup(void)
{
	membership_maker_setup();
	fake_host.slow = true;
}

static void teardown(void)
{
	begun_free(&fake_host.begun);
	membership_maker_teardown();
}

TestSuite(membership_record, .init = setup, .fini = teardown);

static uint32_t plan_now(void)
{
	return membership_plan(&membership_daemon.control, "gpt");
}

static void recorded(uint32_t number)
{
	membership_recorded(&membership_daemon.control, "gpt", number);
	read_orders();
}

/* Plan 7 of four ranks is on record: the first two on n0, the others on n2, which were 4 and 5 before. */
static void put_on_record(void)
{
	struct plan_record *plan = &fake_host.begun.plan;
	plan->number = 7;
	for (uint32_t r = 0; r < 4; r++)
		cr_assert_eq(plan_record_add(plan, r < 2 ? "n0" : "n2", r < 2 ? r : r + 2), 0);
}

static struct peer_capacity by_plan(uint32_t plan, uint32_t world, uint32_t first)
{
	return (struct peer_capacity){.want = WANT,
				      .least = LEAST,
				      .processes = EACH,
				      .plan = plan,
				      .world = world,
				      .n = EACH,
				      .ranks = {first, first + 1}};
}

static void says(uint32_t node, uint32_t plan, uint32_t world, uint32_t first)
{
	struct peer_capacity m = by_plan(plan, world, first);
	report(node, &m);
}

static void says_idle(uint32_t node, uint32_t plan)
{
	report(node, &(struct peer_capacity){.want = WANT, .least = LEAST, .processes = EACH, .plan = plan});
}

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
	membership_joins_by(&membership_daemon.control, "gpt", 3, 6);
	read_orders();
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

/* ---- drains --------------------------------------------------------------------------------------------------------- */

static int drain(const char *node, bool drained, struct err *err)
{
	int rc = membership_drain(&membership_daemon.control, "gpt", node, drained, err);
	read_orders();
	return rc;
}

static void asked_recorded(void)
{
	struct control *control = &membership_daemon.control;
	membership_asked_recorded(control, "gpt", membership_asks(control, "gpt"));
}

static struct membership_drained is(const char *node)
{
	struct membership_drained is;
	struct err err = {{0}};
	cr_assert_eq(membership_drained(&membership_daemon.control, "gpt", node, &is, &err), 0, "%s", err.text);
	return is;
}

static void three_at_work(void)
{
	fake_host.kept = true;
	begin(3);
	recorded(1);
	follow();
}

Test(membership_record, a_drain_is_none_before_it_is_on_record)
{
	struct asked_record asked;
	struct err err = {{0}};
	three_at_work();
	cr_expect_eq(drain("n1", true, &err), -EINPROGRESS, "%s", err.text);
	cr_expect(is("n1").waits && !is("n1").asked);
	tick();
	cr_expect_not(nodes[0].pause, "the world is about to change for it");
	cr_assert_eq(membership_asked(&membership_daemon.control, "gpt", &asked), 0);
	cr_expect(asked.ndrained == 1 && asked_record_is_drained(&asked, "n1"));
	asked_record_free(&asked);
	asked_recorded();
	cr_expect(!is("n1").waits && is("n1").asked);
	cr_expect_eq(drain("n1", true, &err), 0, "it stands");
	cr_expect_eq(nodes[1].drains, 0, "no node has to remember it");
}

Test(membership_record, nor_has_it_ended_before_that_is_on_record)
{
	struct asked_record asked;
	struct err err = {{0}};
	three_at_work();
	drain("n1", true, &err);
	asked_recorded();
	cr_expect_eq(drain("n1", false, &err), -EINPROGRESS);
	cr_expect(is("n1").waits && is("n1").asked);
	cr_assert_eq(membership_asked(&membership_daemon.control, "gpt", &asked), 0);
	cr_expect_eq(asked.ndrained, 0);
	asked_recorded();
	cr_expect_not(is("n1").asked);
}

/* Together they might leave too few. */
Test(membership_record, one_drain_is_recorded_after_the_other)
{
	struct err err = {{0}};
	three_at_work();
	cr_expect_eq(drain("n1", true, &err), -EINPROGRESS);
	cr_expect_eq(drain("n1", true, &err), -EINPROGRESS, "who asks again waits, too");
	cr_expect_eq(drain("n2", true, &err), -EAGAIN);
	cr_expect_str_eq(err.text, "job 'gpt': what was asked of node n1 is not on record yet: ask again");
	cr_expect_eq(drain("n1", false, &err), -EAGAIN);
	asked_recorded();
	cr_expect_eq(drain("n2", true, &err), -EINPROGRESS);
	asked_recorded();
	cr_expect(is("n1").asked && is("n2").asked);
}

Test(membership_record, what_was_recorded_before_a_drain_was_asked_for_is_not_the_drain)
{
	struct err err = {{0}};
	three_at_work();
	drain("n1", true, &err);
	membership_asked_recorded(&membership_daemon.control, "gpt", 0);
	cr_expect(is("n1").waits);
}

Test(membership_record, a_job_without_ranks_has_no_record_for_a_drain)
{
	struct err err = {{0}};
	fake_host.kept = true;
	offer(0, EACH);
	cr_expect_eq(drain("n0", true, &err), -EAGAIN);
	cr_expect_str_eq(err.text, "job 'gpt' has no ranks on any node yet: ask again when it has");
}

/* Neither its daemon nor its launcher is the one that was there when it was drained. */
Test(membership_record, a_node_that_is_drained_stays_so_under_the_next_coordinator)
{
	put_on_record();
	fake_host.kept = true;
	cr_assert_eq(asked_record_drain(&fake_host.begun.asked, "n2"), 0);
	cr_assert_eq(asked_record_drain(&fake_host.begun.asked, "n9"), 0); /* it was removed */
	says(0, 7, 4, 0);
	says(2, 7, 4, 2);
	says_idle(1, 7);
	cr_expect(is("n2").asked && !is("n0").asked && !is("n1").asked);
	fake_host.view.entered = fake_host.view.epoch;
	tick();
	cr_expect(nodes[0].pause && nodes[2].pause, "it is let go at the next save");
	nodes[1].drained = true; /* as a daemon says that was told so by a coordinator of long ago */
	offer(1, EACH);
	cr_expect_not(is("n1").asked);
}

Test(membership_record, a_record_that_is_written_before_the_plan_is_taken_up_keeps_the_drains)
{
	struct asked_record asked;
	put_on_record();
	fake_host.kept = true;
	cr_assert_eq(asked_record_drain(&fake_host.begun.asked, "n2"), 0);
	says_idle(0, 0);
	cr_assert_eq(membership_asked(&membership_daemon.control, "gpt", &asked), 0);
	cr_expect(asked_record_is_drained(&asked, "n2"));
	asked_record_free(&asked);
}

Test(membership_record, a_drain_is_over_with_the_job_of_that_name)
{
	struct asked_record asked;
	put_on_record();
	fake_host.kept = true;
	cr_assert_eq(asked_record_drain(&fake_host.begun.asked, "n2"), 0);
	begin(3);
	cr_expect_eq(plan_now(), 8);
	cr_assert_eq(membership_asked(&membership_daemon.control, "gpt", &asked), 0);
	cr_expect_eq(asked.ndrained, 0);
	recorded(8);
	EXPECT_RANKS(2, 8, 6, 4, 5);
}
