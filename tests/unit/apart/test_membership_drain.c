/* Drains of nodes, which are on record. */
#include "membership_maker.h"
#include "plan_on_record.h"

#include "base/clock.h"
#include "cluster/roster.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(membership_drain, .init = plan_on_record_setup, .fini = plan_on_record_teardown);

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

Test(membership_drain, a_drain_is_none_before_it_is_on_record)
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

Test(membership_drain, nor_has_it_ended_before_that_is_on_record)
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
Test(membership_drain, one_drain_is_recorded_after_the_other)
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

Test(membership_drain, what_was_recorded_before_a_drain_was_asked_for_is_not_the_drain)
{
	struct err err = {{0}};
	three_at_work();
	drain("n1", true, &err);
	membership_asked_recorded(&membership_daemon.control, "gpt", 0);
	cr_expect(is("n1").waits);
}

Test(membership_drain, a_job_without_ranks_has_no_record_for_a_drain)
{
	struct err err = {{0}};
	fake_host.kept = true;
	offer(0, EACH);
	cr_expect_eq(drain("n0", true, &err), -EAGAIN);
	cr_expect_str_eq(err.text, "job 'gpt' has no ranks on any node yet: ask again when it has");
}

/* Neither its daemon nor its launcher is the one that was there when it was drained. */
Test(membership_drain, a_node_that_is_drained_stays_so_under_the_next_coordinator)
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

/* By the record n2 is drained. n1 has room for its ranks, if it is there. */
static void all_but_n1_say(uint32_t least)
{
	put_on_record();
	fake_host.kept = true;
	cr_assert_eq(asked_record_drain(&fake_host.begun.asked, "n2"), 0);
	for (uint32_t node = 0; node <= 2; node += 2) {
		struct peer_capacity m = by_plan(7, 4, node);
		m.least = least;
		report(node, &m);
	}
	fake_host.view.entered = fake_host.view.epoch;
	tick();
	cr_expect(!fake_host.halts && !nodes[0].pause && !nodes[2].pause);
}

static void n1_says(uint32_t least)
{
	report(1, &(struct peer_capacity){.want = WANT, .least = least, .processes = EACH, .plan = 7});
	tick();
	cr_expect(nodes[0].pause && nodes[2].pause, "n2 is let go at the next save");
	cr_expect_str_eq(is("n2").stuck, "");
}

Test(membership_drain, a_world_does_not_shrink_before_who_has_room_could_say_so)
{
	all_but_n1_say(LEAST);
	n1_says(LEAST);
}

Test(membership_drain, and_does_when_nobody_has)
{
	all_but_n1_say(LEAST);
	clock_skip(WAIT_S * CLOCK_NS_PER_S);
	tick();
	cr_expect(nodes[0].pause && nodes[2].pause);
}

Test(membership_drain, a_job_does_not_end_for_it)
{
	all_but_n1_say(4);
	clock_skip(WAIT_S * CLOCK_NS_PER_S);
	tick();
	cr_expect(!fake_host.halts && !nodes[0].pause && !nodes[2].pause);
	cr_expect(strstr(is("n2").stuck, "fewer than 4 ranks would be left"), "%s", is("n2").stuck);
	n1_says(4);
	cr_expect_eq(fake_host.halts, 0);
}

Test(membership_drain, it_stays_as_it_is_while_who_has_room_is_lost)
{
	all_but_n1_say(4);
	n1_says(4);
	clock_skip(WAIT_S * CLOCK_NS_PER_S);
	lose(1);
	tick();
	cr_expect(!fake_host.halts && *is("n2").stuck);
	n1_says(4);
}

Test(membership_drain, for_a_launcher_that_is_told_to_end_it_does)
{
	struct peer_capacity m = by_plan(7, 4, 2);
	all_but_n1_say(4);
	m.least = 4;
	m.leaving = true;
	report(2, &m);
	tick();
	cr_expect_eq(fake_host.halts, 0, "n1 may come");
	clock_skip(WAIT_S * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(fake_host.halts, 1);
}

Test(membership_drain, a_record_that_is_written_before_the_plan_is_taken_up_keeps_the_drains)
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

Test(membership_drain, a_drain_is_over_with_the_job_of_that_name)
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

/* What is asked meanwhile would be recorded nowhere, and the record takes its place when somebody comes who follows the plan. */
Test(membership_drain, nothing_is_drained_or_undrained_before_the_plan_on_record_is_taken_up)
{
	struct err err = {{0}};
	put_on_record();
	fake_host.kept = true;
	cr_assert_eq(asked_record_drain(&fake_host.begun.asked, "n2"), 0);
	says_idle(1, 0);
	fake_host.has = true; /* others have joined, and may follow the plan */
	cr_expect_eq(drain("n2", false, &err), -EAGAIN);
	cr_expect_eq(drain("n1", true, &err), -EAGAIN);
	cr_expect(strstr(err.text, "ask again"), "%s", err.text);
	says(0, 7, 4, 0);
	says(2, 7, 4, 2);
	cr_expect(is("n2").asked);
	cr_expect_eq(drain("n2", false, &err), -EINPROGRESS, "%s", err.text);
}

Test(membership_drain, of_a_node_that_is_removed_is_recorded_no_more)
{
	struct asked_record asked;
	put_on_record();
	fake_host.kept = true;
	cr_assert_eq(asked_record_drain(&fake_host.begun.asked, "n2"), 0);
	says(0, 7, 4, 0);
	says(2, 7, 4, 2);
	cr_assert_eq(membership_asked(&membership_daemon.control, "gpt", &asked), 0);
	cr_expect(asked_record_is_drained(&asked, "n2"));
	asked_record_free(&asked);
	membership_daemon.peers.roster->nodes[2].port = 0;
	cr_assert_eq(membership_asked(&membership_daemon.control, "gpt", &asked), 0);
	cr_expect_eq(asked.ndrained, 0);
}
