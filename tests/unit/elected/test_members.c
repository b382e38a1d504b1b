/* How a node joins a cluster whose nodes stand in the registry, and how one leaves it. */
#include "control/election/members.h"

#include "base/clock.h"
#include "base/log.h"
#include "control/control.h"
#include "control/election/election.h"
#include "daemon.h"
#include "fake_etcd.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { INCARNATION = 0xabc, OTHER = 0xdef, SINCE_MS = 1000, LEASE_MS = 2000 };

static struct daemon d;
static int removed_rc;
static unsigned removed;

static struct roster_node node_of(const char *name, unsigned host, uint64_t incarnation)
{
	struct roster_node node = {.port = 7, .incarnation = incarnation};
	snprintf(node.name, sizeof(node.name), "%s", name);
	snprintf(node.host, sizeof(node.host), "10.0.0.%u", host);
	return node;
}

static void on_moved(struct dispatch *dispatch, const char *job)
{
	(void)dispatch, (void)job;
}

static void setup(void)
{
	static char url[] = "etcd://10.0.0.9/ckpt", name[] = "b";
	const struct election_events heard = {.moved = on_moved};
	const struct roster_node self = node_of("b", 2, INCARNATION);
	struct err err = {{0}};
	log_set_level(LOG_ERROR);
	etcd_reset();
	daemon_init(&d);
	d.runtime.config.registry = url;
	d.runtime.config.registry_lease_ms = LEASE_MS;
	d.runtime.config.node = name;
	cr_assert_eq(members_open(&d.control, &self, SINCE_MS, &err), 0, "%s", err.text);
	cr_assert_eq(election_open(&d.control, &heard, &err), 0, "%s", err.text);
	removed = 0;
}

static void teardown(void)
{
	election_close(&d.control);
	members_close(&d.control);
	roster_free(d.peers.roster);
}

TestSuite(members, .init = setup, .fini = teardown);

static void tick(uint64_t ms)
{
	clock_skip(ms * CLOCK_NS_PER_MS);
	members_tick(&d.control);
}

static int state(void)
{
	struct err err = {{0}};
	return members_state(&d.control, &err);
}

/* A record as its daemon writes it. */
static const char *text_of(const struct roster_node *node, uint32_t number)
{
	static char text[MEMBER_TEXT_MAX];
	const struct member m = {.number = number, .since_ms = SINCE_MS, .node = *node};
	member_encode(&m, text);
	return text;
}

static void join(void)
{
	tick(1000);
	cr_assert(fake_etcd.waits);
	cr_assert(etcd_decide());
	tick(1000);
	cr_assert_eq(state(), 1);
}

static void on_removed(void *arg, int rc, const char *why)
{
	(void)arg;
	removed++;
	removed_rc = rc;
	cr_expect(!rc || *why);
}

static int remove_node(const char *name)
{
	struct err err = {{0}};
	int rc = members_remove(&d.control, name, on_removed, NULL, &err);
	cr_expect(!rc || err.text[0]);
	return rc;
}

Test(members, the_first_one_gets_number_0_and_all_its_records_at_once)
{
	const struct roster_node self = node_of("b", 2, INCARNATION);
	cr_expect_eq(state(), 0);
	tick(1000);
	cr_assert(fake_etcd.waits && fake_etcd.own_leased);
	cr_expect_eq(state(), 0, "nobody has decided yet");
	cr_assert(etcd_decide());
	cr_expect_str_eq(etcd_value("cluster/b"), text_of(&self, 0));
	cr_expect_str_eq(etcd_value("cluster-next"), "1");
	cr_expect_str_eq(etcd_value("nodes/b"), "10.0.0.2:7");
	tick(1000);
	cr_expect_eq(state(), 1);
	cr_expect_eq(d.peers.self, 0);
	cr_expect_str_eq(d.peers.roster->nodes[0].name, "b");
}

Test(members, a_new_name_gets_the_next_number)
{
	const struct roster_node a = node_of("a", 1, OTHER);
	etcd_put("cluster/a", text_of(&a, 0), false);
	etcd_put("cluster-next", "5", false);
	join();
	cr_expect_eq(d.peers.self, 5);
	cr_expect_str_eq(etcd_value("cluster-next"), "6");
	cr_expect(roster_has(d.peers.roster, 0) && roster_has(d.peers.roster, 5) && !roster_has(d.peers.roster, 1));
}

/* Both have seen that the next number is 0. */
Test(members, of_two_who_take_the_same_number_one_succeeds_and_the_other_takes_the_next)
{
	const struct roster_node a = node_of("a", 1, OTHER);
	tick(1000);
	etcd_put_unseen("cluster/a", text_of(&a, 0), false);
	etcd_put_unseen("cluster-next", "1", false);
	cr_expect(!etcd_decide());
	cr_expect(!etcd_value("cluster/b"));
	join();
	cr_expect_eq(d.peers.self, 1);
	cr_expect_str_eq(etcd_value("cluster-next"), "2");
}

Test(members, a_name_that_was_there_before_keeps_its_number)
{
	const struct roster_node was = node_of("b", 9, OTHER);
	etcd_put("cluster/b", text_of(&was, 3), false);
	etcd_put("cluster-next", "7", false);
	join();
	cr_expect_eq(d.peers.self, 3);
	cr_expect_str_eq(etcd_value("cluster-next"), "7");
	cr_expect_str_eq(d.peers.roster->nodes[3].host, "10.0.0.2", "it is at another address now");
}

Test(members, of_two_daemons_of_one_name_one_succeeds)
{
	const struct roster_node other = node_of("b", 9, OTHER);
	tick(1000);
	etcd_put_unseen("cluster/b", text_of(&other, 0), false);
	etcd_put_unseen("nodes/b", "10.0.0.9:7", false);
	etcd_put_unseen("cluster-next", "1", false);
	cr_expect(!etcd_decide());
	cr_expect_eq(state(), 0);
	cr_expect_str_eq(etcd_value("nodes/b"), "10.0.0.9:7");
}

Test(members, one_whose_name_another_daemon_keeps_is_refused_with_its_address)
{
	const struct roster_node other = node_of("b", 9, OTHER);
	struct err err = {{0}};
	etcd_put("cluster/b", text_of(&other, 0), false);
	etcd_put("nodes/b", "10.0.0.9:7", false);
	for (unsigned ms = 0; ms < 2 * LEASE_MS; ms += 500)
		tick(500);
	cr_expect_eq(members_state(&d.control, &err), 0, "its lease may be about to end");
	cr_expect(strstr(err.text, "10.0.0.9:7"), "%s", err.text);
	for (unsigned ms = 0; ms < 10000; ms += 500)
		tick(500);
	cr_expect_eq(members_state(&d.control, &err), -EEXIST);
	cr_expect(strstr(err.text, "10.0.0.9:7"), "%s", err.text);
	cr_expect_eq(fake_etcd.asked, 0);
}

Test(members, a_machine_that_was_replaced_is_let_in_when_the_lease_of_the_first_has_ended)
{
	const struct roster_node other = node_of("b", 9, OTHER);
	etcd_put("cluster/b", text_of(&other, 4), false);
	etcd_put("nodes/b", "10.0.0.9:7", false);
	tick(1000);
	cr_expect_eq(fake_etcd.asked, 0);
	etcd_put("nodes/b", NULL, false);
	join();
	cr_expect_eq(d.peers.self, 4);
}

Test(members, a_daemon_that_begins_anew_at_its_address_need_not_wait)
{
	const struct roster_node was = node_of("b", 2, OTHER);
	etcd_put("cluster/b", text_of(&was, 4), false);
	etcd_put("nodes/b", "10.0.0.2:7", false); /* under the lease of its earlier life */
	join();
	cr_expect_eq(d.peers.self, 4);
}

Test(members, one_whose_name_another_daemon_has_taken_is_out)
{
	const struct roster_node other = node_of("b", 9, OTHER);
	struct err err = {{0}};
	join();
	etcd_put("cluster/b", text_of(&other, 0), false);
	tick(1000);
	cr_expect_eq(members_state(&d.control, &err), -EEXIST);
	cr_expect(strstr(err.text, "10.0.0.9:7"), "%s", err.text);
	unsigned before = fake_etcd.asked;
	tick(10000);
	cr_expect_eq(fake_etcd.asked, before, "it takes nothing back");
}

Test(members, one_that_was_removed_is_out)
{
	join();
	etcd_put("cluster/b", NULL, false);
	tick(1000);
	cr_expect_eq(state(), -ENOENT);
}

Test(members, one_whose_lease_has_ended_is_there_again_with_the_next_one)
{
	join();
	etcd_put("nodes/b", NULL, false);
	tick(1000);
	cr_expect_eq(state(), 1, "it is a member all the same");
	cr_assert(fake_etcd.waits && fake_etcd.own_leased);
	cr_assert(etcd_decide());
	cr_expect_str_eq(etcd_value("nodes/b"), "10.0.0.2:7");
}

Test(members, one_that_was_replaced_meanwhile_is_not_there_again)
{
	const struct roster_node other = node_of("b", 9, OTHER);
	join();
	etcd_put("nodes/b", NULL, false);
	tick(1000);
	etcd_put_unseen("cluster/b", text_of(&other, 0), false);
	cr_expect(!etcd_decide());
	cr_expect(!etcd_value("nodes/b"));
}

Test(members, others_are_followed)
{
	struct roster_node a = node_of("a", 1, OTHER);
	join();
	etcd_put("cluster/a", text_of(&a, 1), false);
	cr_expect(roster_find(d.peers.roster, "a") == 1);
	a = node_of("a", 7, OTHER + 1);
	etcd_put("cluster/a", text_of(&a, 1), false);
	cr_expect_str_eq(d.peers.roster->nodes[1].host, "10.0.0.7");
	etcd_put("cluster/a", NULL, false);
	cr_expect(!roster_has(d.peers.roster, 1));
}

/* What came and went while the registry was away is heard as one change. */
Test(members, one_that_was_removed_and_has_joined_anew_is_known_by_its_new_number_alone)
{
	struct roster_node a = node_of("a", 1, OTHER), anew = node_of("a", 1, OTHER + 1);
	join();
	etcd_put("cluster/a", text_of(&a, 1), false);
	etcd_put("cluster/a", text_of(&anew, 2), false);
	cr_expect_eq(roster_find(d.peers.roster, "a"), 2);
	cr_expect(!roster_has(d.peers.roster, 1));
}

Test(members, one_that_is_removed_before_it_has_joined_is_known_by_its_new_number_alone)
{
	const struct roster_node was = node_of("b", 9, OTHER);
	etcd_put("cluster/b", text_of(&was, 3), false);
	etcd_put("cluster-next", "7", false);
	etcd_put("cluster/b", NULL, false);
	join();
	cr_expect_eq(d.peers.self, 7);
	cr_expect_eq(roster_find(d.peers.roster, "b"), 7);
	cr_expect(!roster_has(d.peers.roster, 3));
}

Test(members, one_whose_name_has_another_number_now_is_out_and_keeps_its_own_until_then)
{
	const struct roster_node other = node_of("b", 9, OTHER);
	join();
	etcd_put("cluster/b", text_of(&other, 1), false);
	cr_expect_eq(d.peers.self, 0);
	tick(1000);
	cr_expect_eq(state(), -EEXIST);
}

Test(members, a_number_is_one_nodes_for_ever)
{
	const struct roster_node a = node_of("a", 1, OTHER), c = node_of("c", 3, OTHER);
	join();
	etcd_put("cluster/a", text_of(&a, 1), false);
	etcd_put("cluster/c", text_of(&c, 1), false);
	cr_expect(roster_find(d.peers.roster, "a") == 1 && roster_find(d.peers.roster, "c") < 0,
		  "the later one is not believed");
	etcd_put("cluster/a", NULL, false);
	etcd_put("cluster/c", text_of(&c, 1), false);
	cr_expect_lt(roster_find(d.peers.roster, "c"), 0, "nor when the first is gone");
}

Test(members, a_record_that_cannot_be_read_is_no_node)
{
	join();
	etcd_put("cluster/a", "1 1 nonsense", false);
	cr_expect_lt(roster_find(d.peers.roster, "a"), 0);
}

Test(members, a_node_that_is_away_is_removed)
{
	const struct roster_node a = node_of("a", 1, OTHER);
	join();
	etcd_put("cluster/a", text_of(&a, 1), false);
	cr_expect_eq(remove_node("a"), 0);
	cr_expect(etcd_decide());
	cr_expect(removed == 1 && !removed_rc);
	cr_expect(!etcd_value("cluster/a"));
	cr_expect_lt(roster_find(d.peers.roster, "a"), 0);
}

Test(members, a_node_that_is_there_or_has_just_come_back_is_not_removed)
{
	const struct roster_node a = node_of("a", 1, OTHER), again = node_of("a", 1, OTHER + 1);
	join();
	etcd_put("cluster/a", text_of(&a, 1), false);
	etcd_put("nodes/a", "10.0.0.1:7", false);
	cr_expect_eq(remove_node("a"), -EBUSY);
	cr_expect(!fake_etcd.waits);
	etcd_put("nodes/a", NULL, false);
	cr_expect_eq(remove_node("a"), 0);
	etcd_put_unseen("nodes/a", "10.0.0.1:7", false);
	cr_expect(!etcd_decide());
	cr_expect(removed == 1 && removed_rc == -EBUSY);
	etcd_put("nodes/a", NULL, false);
	cr_expect_eq(remove_node("a"), 0);
	etcd_put_unseen("cluster/a", text_of(&again, 1), false);
	cr_expect(!etcd_decide(), "another daemon of that name has joined, and gone");
	cr_expect(removed == 2 && removed_rc == -EBUSY);
	cr_expect(etcd_value("cluster/a"));
}

Test(members, what_cannot_be_removed_says_why)
{
	join();
	cr_expect_eq(remove_node("a"), -ENOENT);
	fake_etcd.synced = false;
	cr_expect_eq(remove_node("b"), -ENOTCONN);
	fake_etcd.synced = true;
	cr_expect_eq(removed, 0);
}
