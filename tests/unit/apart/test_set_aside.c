#include "control/lemon/set_aside.h"

#include "base/clock.h"
#include "daemon.h"
#include "format/message/fault.h"
#include "membership_maker.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static void teardown(void)
{
	set_aside_free(&membership_daemon.control);
	membership_maker_teardown();
}

TestSuite(set_aside, .init = membership_maker_setup, .fini = teardown);

static void offer_unfit(uint32_t node, const char *why)
{
	struct peer_capacity m = assignment_of(node, EACH);
	snprintf(m.unfit, sizeof(m.unfit), "%s", why);
	report(node, &m);
}

static const char *why(uint32_t node)
{
	return set_aside_why(&membership_daemon.control, node);
}

Test(set_aside, a_spare_has_the_ranks_of_a_node_that_says_it_is_unfit)
{
	offer_unfit(0, "its memory has errors");
	offer(1, EACH);
	offer(2, EACH);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 0, "a spare may come");
	offer_spare(3);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 1);
	cr_expect_str_eq(why(0), "its memory has errors");
	cr_expect_eq(nodes[0].plan.n, 0);
	EXPECT_RANKS(1, 1, 6, 0, 1);
	EXPECT_RANKS(3, 1, 6, 4, 5);
}

Test(set_aside, without_a_spare_it_gets_them_when_that_was_waited_for)
{
	offer_unfit(0, "its memory has errors");
	offer(1, EACH);
	offer(2, EACH);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 1);
	cr_expect_eq(nodes[0].plan.n, EACH);
}

Test(set_aside, it_ends_when_the_node_says_so_or_is_lost)
{
	offer_unfit(0, "its memory has errors");
	offer_unfit(1, "its GPU is lost");
	cr_expect_str_eq(why(1), "its GPU is lost");
	offer_unfit(0, "its memory has more errors");
	cr_expect_str_eq(why(0), "its memory has more errors");
	offer(0, EACH);
	cr_expect_str_eq(why(0), "");
	memberships_node_down(&membership_daemon.control, 1);
	cr_expect_str_eq(why(1), "");
	cr_expect_str_eq(why(2), "");
}

Test(set_aside, a_job_that_comes_later_knows_of_it)
{
	struct peer_report r = {
		.type = PEER_CAPACITY, .job = "other", .assignment = {.want = 2, .least = 2, .processes = 2}};
	offer_unfit(0, "its memory has errors");
	membership_report(&membership_daemon.control, 0, true, &r);
	cr_expect_str_eq(why(0), "", "it says so of itself, whatever the job");
	offer_unfit(0, "its memory has errors");
	r.assignment.spare = true;
	membership_report(&membership_daemon.control, 1, true, &r);
	const struct membership *at = NULL;
	struct membership_view v;
	while (membership_next(&membership_daemon.control, &at, &v))
		cr_expect(v.assignment->nodes[0].avoided && !v.assignment->nodes[1].avoided);
}

Test(set_aside, a_job_on_one_node_is_not_kept_waiting)
{
	struct peer_report r = {
		.type = PEER_CAPACITY,
		.job = "alone",
		.assignment = {.want = 2, .least = 1, .processes = 2, .unfit = "its memory has errors"}};
	membership_report(&membership_daemon.control, 0, false, &r);
	cr_expect_eq(membership_plan(&membership_daemon.control, "alone"), 1);
	cr_expect_str_eq(why(0), "");
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

static void fail(uint32_t node, unsigned times)
{
	membership_daemon.runtime.config.lemon_failures = 3;
	membership_daemon.runtime.config.lemon_window_ms = 24ull * 3600 * 1000;
	for (unsigned i = 0; i < times; i++) {
		clock_skip(CLOCK_NS_PER_S);
		set_aside_suspect(&membership_daemon.control, node, "gpt", "rank 1 is lost");
		set_aside_gone_on(&membership_daemon.control, "gpt");
	}
}

static int cleared_rc;

static void cleared(void *arg, int rc, const char *text)
{
	(void)arg, (void)text;
	cleared_rc = rc;
}

static int clear(const char *name, struct err *err)
{
	cleared_rc = 1;
	return set_aside_clear(&membership_daemon.control, name, cleared, NULL, err);
}

Test(set_aside, a_node_that_fails_again_and_again_is_until_it_is_cleared)
{
	struct err err = {{0}};
	fail(0, 2);
	cr_expect_str_eq(why(0), "");
	fail(0, 1);
	cr_expect_str_eq(why(0), "it has failed 3 times within 24 h, last in job gpt: rank 1 is lost");
	cr_expect_str_eq(set_aside_lemon(&membership_daemon.control, 0), why(0));
	offer(0, EACH);
	offer(1, EACH);
	offer(2, EACH);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 0, "a spare may come");
	cr_assert_eq(clear("n0", &err), 0);
	cr_expect_eq(cleared_rc, 0);
	cr_expect_str_eq(why(0), "");
	tick();
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 1);
	fail(0, 1);
	set_aside_suspect(&membership_daemon.control, 0, "gpt", "rank 1 is lost");
	cr_assert_eq(clear("n0", &err), 0);
	set_aside_gone_on(&membership_daemon.control, "gpt");
	fail(0, 2);
	cr_expect_str_eq(why(0), "", "what was before does not count");
}

Test(set_aside, what_ends_a_whole_job_does_not_count)
{
	membership_daemon.runtime.config.lemon_failures = 3;
	membership_daemon.runtime.config.lemon_window_ms = 24ull * 3600 * 1000;
	for (int i = 0; i < 5; i++) {
		set_aside_suspect(&membership_daemon.control, 0, "gpt", "rank 1 is lost");
		set_aside_gone_on(&membership_daemon.control, "other");
	}
	cr_expect_str_eq(why(0), "");
	clock_skip(601 * CLOCK_NS_PER_S);
	set_aside_gone_on(&membership_daemon.control, "gpt");
	set_aside_suspect(&membership_daemon.control, 0, "gpt", "rank 1 is lost");
	set_aside_ended(&membership_daemon.control, "gpt");
	set_aside_gone_on(&membership_daemon.control, "gpt");
	fail(0, 2);
	cr_expect_str_eq(why(0), "", "these were the first two");
	fail(0, 1);
	cr_expect(*why(0));
}

/* A day ahead or behind: for how long a suspicion holds is not measured by it. */
Test(set_aside, a_time_of_day_that_jumps_makes_no_suspicion_older_or_younger)
{
	membership_daemon.runtime.config.lemon_failures = 1;
	membership_daemon.runtime.config.lemon_window_ms = 7ull * 24 * 3600 * 1000;
	set_aside_suspect(&membership_daemon.control, 0, "gpt", "rank 1 is lost");
	clock_wall_jump(FAULT_JUMP_NS);
	set_aside_gone_on(&membership_daemon.control, "gpt");
	cr_expect(*why(0), "it was just suspected");
	set_aside_suspect(&membership_daemon.control, 1, "gpt", "rank 2 is lost");
	clock_skip(601 * CLOCK_NS_PER_S);
	clock_wall_jump(-(int64_t)FAULT_JUMP_NS);
	set_aside_gone_on(&membership_daemon.control, "gpt");
	cr_expect_str_eq(why(1), "", "that was too long ago");
	clock_wall_jump(0);
}

Test(set_aside, nodes_that_all_fail_are_not)
{
	for (unsigned i = 0; i < 5; i++)
		for (uint32_t n = 0; n < NODES; n++)
			fail(n, 1);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_str_eq(why(n), "");
}

Test(set_aside, failures_are_the_reason_before_what_the_node_says)
{
	struct err err = {{0}};
	offer_unfit(0, "its memory has errors");
	fail(0, 3);
	cr_expect(strstr(why(0), "it has failed"));
	cr_assert_eq(clear("n0", &err), 0);
	cr_expect_str_eq(why(0), "its memory has errors");
}

Test(set_aside, who_has_not_failed_cannot_be_cleared)
{
	struct err err = {{0}};
	cr_expect_eq(clear("n1", &err), -ENOENT);
	cr_expect(strstr(err.text, "node n1 has not failed"));
	offer_unfit(1, "its memory has errors");
	cr_expect_eq(clear("n1", &err), -ENOENT);
	cr_expect(strstr(err.text, "it is set aside: its memory has errors"));
	cr_expect_eq(clear("other", &err), -ENOENT);
	cr_expect(strstr(err.text, "there is no node"));
	membership_daemon.peers.self = 1;
	cr_expect_eq(clear("n0", &err), -EREMOTE);
	cr_expect(strstr(err.text, "node n0 counts the failures"));
}

/* ---- in the registry --------------------------------------------------------------------------------------------- */

static char registry; /* nobody looks into it */

static void elect(void)
{
	membership_daemon.control.registry = (struct registry *)&registry;
	fake_registry.synced = true;
}

static void told(const char *text, bool gone)
{
	struct registry_record record = {
		.key = "lemons/n0", .value = text, .len = text ? strlen(text) : 0, .changed = 7};
	cr_assert(set_aside_record(&membership_daemon.control, &record, gone));
}

static void pass(void)
{
	clock_skip(CLOCK_NS_PER_S);
	set_aside_tick(&membership_daemon.control, clock_now());
}

Test(set_aside, failures_are_put_into_the_registry_once)
{
	elect();
	fail(0, 1);
	pass();
	cr_expect_eq(fake_registry.commits, 1);
	cr_expect_str_eq(fake_registry.key, "lemons/n0");
	cr_expect(strstr(fake_registry.value, "\"why\":\"rank 1 is lost\""), "%s", fake_registry.value);
	cr_expect(!fake_registry.leased, "it outlives the daemon");
	cr_expect_eq(fake_registry.compares, 1);
	pass();
	fake_decided((struct registry_result){.applied = true});
	pass();
	cr_expect_eq(fake_registry.commits, 1);
}

Test(set_aside, who_comes_second_puts_both)
{
	elect();
	fail(0, 1);
	pass();
	told("{\"name\":\"n0\",\"since_ns\":0,\"reason\":\"\",\"failures\":[{\"at_ns\":5,\"job\":\"x\",\"why\":\"y\"}]"
	     "}",
	     false);
	fake_decided((struct registry_result){.applied = false});
	told("{\"name\":\"n0\",\"since_ns\":0,\"reason\":\"\",\"failures\":[{\"at_ns\":5,\"job\":\"x\",\"why\":\"y\"}]"
	     "}",
	     false);
	pass();
	cr_expect_eq(fake_registry.commits, 2);
	cr_expect(strstr(fake_registry.value, "\"why\":\"y\""), "%s", fake_registry.value);
	cr_expect(strstr(fake_registry.value, "\"why\":\"rank 1 is lost\""), "%s", fake_registry.value);
	fake_decided((struct registry_result){.applied = true});
}

Test(set_aside, what_others_have_put_there_holds_here)
{
	elect();
	told("{\"name\":\"n0\",\"since_ns\":9,\"reason\":\"it "
	     "fails\",\"failures\":[{\"at_ns\":5,\"job\":\"x\",\"why\":\"y\"}]}",
	     false);
	cr_expect_str_eq(why(0), "it fails");
	told(NULL, true);
	cr_expect_str_eq(why(0), "");
	told("{\"name\":\"n1\",\"since_ns\":9,\"reason\":\"it fails\",\"failures\":[]}", false);
	told("nonsense", false);
	cr_expect_str_eq(why(0), "", "that is of another node, or nothing");
	cr_expect_str_eq(why(1), "");
	struct registry_record other = {.key = "cluster/n0"};
	cr_expect(!set_aside_record(&membership_daemon.control, &other, false));
}

Test(set_aside, it_is_cleared_in_the_registry)
{
	struct err err = {{0}};
	elect();
	fail(0, 3);
	pass();
	fake_decided((struct registry_result){.applied = true});
	fake_registry.synced = false;
	cr_expect_eq(clear("n0", &err), -ENOTCONN);
	fake_registry.synced = true;
	membership_daemon.peers.self = 2; /* any node may */
	cr_assert_eq(clear("n0", &err), 0);
	cr_expect_eq(cleared_rc, 1, "not before the registry has decided");
	fake_decided((struct registry_result){.rc = -ETIMEDOUT, .why = "no answer"});
	cr_expect_eq(cleared_rc, -ETIMEDOUT);
	cr_expect(*why(0));
	cr_assert_eq(clear("n0", &err), 0);
	fake_decided((struct registry_result){.applied = true});
	cr_expect_eq(cleared_rc, 0);
	cr_expect_str_eq(why(0), "");
	pass();
	cr_expect_eq(fake_registry.commits, 3, "nothing is put there again");
}
