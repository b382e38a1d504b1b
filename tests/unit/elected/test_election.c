/* Who coordinates a job, as one node sees it. */
#include "control/election/election.h"

#include "base/clock.h"
#include "control/control.h"
#include "control/host/coordinator_host.h"
#include "fake_etcd.h"
#include "node_of_three.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define COORDINATOR "jobs/gpt/coordinator"
#define EPOCH "jobs/gpt/epoch"
#define EPOCH_TEXT "what stands of an epoch"

static struct daemon d;
static struct job job;
static unsigned moved;
static int recorded_rc;
static unsigned recorded;

static void on_moved(struct dispatch *dispatch, const char *name)
{
	(void)dispatch;
	moved += !strcmp(name, "gpt");
}

/* A node of three, which has part in a job of several nodes. */
static void setup(void)
{
	job = (struct job){.nlocal = 0};
	node_open(&d, &job, on_moved);
	moved = recorded = 0;
}

static void teardown(void)
{
	node_close(&d);
}

TestSuite(election, .init = setup, .fini = teardown);

static void tick(uint64_t ms)
{
	node_tick(&d, ms);
}

/* It asks, and is elected. Returns the term. */
static uint64_t elected(void)
{
	tick(1000);
	cr_assert(etcd_decide());
	cr_assert_eq(coordinator_of(&d.control, "gpt"), SELF);
	return coordinator_term(&d.control, "gpt");
}

static void on_recorded(void *arg, int rc, const char *why)
{
	(void)arg, (void)why;
	recorded++;
	recorded_rc = rc;
}

static void record_epoch(void)
{
	cr_assert_eq(election_record_epoch(&d.control, "gpt", EPOCH_TEXT, strlen(EPOCH_TEXT), on_recorded, NULL), 0);
}

Test(election, who_creates_the_record_coordinates_in_the_term_of_its_creation)
{
	cr_expect_eq(coordinator_of(&d.control, "gpt"), NO_NODE);
	tick(0);
	cr_assert(fake_etcd.waits && fake_etcd.own_leased);
	cr_expect(!host_here(&d.control, "gpt"), "not before the mirror shows it");
	cr_assert(etcd_decide());
	cr_expect_str_eq(etcd_value(COORDINATOR), "b");
	cr_expect(host_here(&d.control, "gpt"));
	cr_expect_eq(coordinator_term(&d.control, "gpt"), etcd_created(COORDINATOR));
	cr_expect_eq(moved, 1);
}

Test(election, of_several_who_ask_one_is_elected)
{
	tick(0);
	etcd_put_unseen(COORDINATOR, "a", false);
	cr_expect(!etcd_decide(), "it stands already");
	cr_expect_eq(coordinator_of(&d.control, "gpt"), A);
	unsigned before = fake_etcd.asked;
	tick(10000);
	cr_expect_eq(fake_etcd.asked, before, "nothing is asked for while another one coordinates");
	etcd_put(COORDINATOR, NULL, false);
	cr_expect_eq(coordinator_of(&d.control, "gpt"), NO_NODE);
	elected();
}

Test(election, who_coordinates_another_job_lets_others_be_first)
{
	etcd_put("jobs/other/coordinator", "b", true);
	cr_assert(host_here(&d.control, "other"));
	tick(0);
	tick(99);
	cr_expect(!fake_etcd.waits);
	tick(1);
	cr_expect(fake_etcd.waits, "nobody else wants it");
}

Test(election, a_message_counts_from_who_coordinates_and_in_that_term_only)
{
	etcd_put(COORDINATOR, "a", false);
	uint64_t term = etcd_created(COORDINATOR);
	cr_expect(election_believes(&d.control, "gpt", A, term));
	cr_expect(!election_believes(&d.control, "gpt", C, term), "another node");
	cr_expect(!election_believes(&d.control, "gpt", SELF, term));
	cr_expect(!election_believes(&d.control, "gpt", A, term - 1), "an earlier term");
	cr_expect(!election_believes(&d.control, "gpt", A, term + 1), "a later term, of which nothing is known here");
	cr_expect(!election_believes(&d.control, "gpt", A, 0));
	cr_expect(!election_believes(&d.control, "other", A, term), "another job");
	etcd_put(COORDINATOR, NULL, false);
	cr_expect(!election_believes(&d.control, "gpt", A, term), "nobody coordinates");
	etcd_put(COORDINATOR, "a", false); /* the same node is elected again */
	cr_expect(!election_believes(&d.control, "gpt", A, term), "of its earlier term");
	cr_expect(election_believes(&d.control, "gpt", A, etcd_created(COORDINATOR)));
}

/* Terms only grow, so a higher one was elected since. */
Test(election, while_the_registry_is_away_who_announces_a_higher_term_is_believed)
{
	etcd_put(COORDINATOR, "a", false);
	uint64_t term = etcd_created(COORDINATOR);
	cr_expect(!election_hears(&d.control, "gpt", C, term + 7), "the registry will say so itself");
	fake_etcd.synced = false;
	cr_expect(!election_hears(&d.control, "gpt", C, term) && !election_hears(&d.control, "gpt", C, term - 1));
	cr_expect(!election_hears(&d.control, "gpt", SELF, term + 7), "we would know");
	cr_expect(!election_hears(&d.control, "other", C, term + 7), "nothing is known of that job");
	cr_expect_eq(coordinator_of(&d.control, "gpt"), A);
	cr_expect(election_hears(&d.control, "gpt", C, term + 7));
	cr_expect(election_believes(&d.control, "gpt", C, term + 7) && moved == 2);
	cr_expect(!election_hears(&d.control, "gpt", A, term + 6), "it was elected before that one");
}

Test(election, who_coordinates_and_has_its_lease_believes_nobody_else)
{
	uint64_t term = elected();
	fake_etcd.synced = false;
	cr_expect(!election_hears(&d.control, "gpt", C, term + 7));
	fake_etcd.lease_until = 0;
	tick(0);
	cr_expect(election_hears(&d.control, "gpt", C, term + 7));
}

Test(election, when_the_registry_is_back_its_word_counts)
{
	etcd_put(COORDINATOR, "a", false);
	uint64_t term = etcd_created(COORDINATOR);
	fake_etcd.synced = false;
	cr_assert(election_hears(&d.control, "gpt", C, term + 1));
	etcd_put("elsewhere", "1", false);
	etcd_back();
	cr_expect(election_believes(&d.control, "gpt", A, term), "nobody was elected in that term");
	etcd_put(COORDINATOR, NULL, false);
	fake_etcd.synced = false;
	cr_assert(election_hears(&d.control, "gpt", C, term + 3));
	etcd_put("elsewhere", "2", false);
	etcd_back();
	cr_expect_eq(coordinator_of(&d.control, "gpt"), NO_NODE, "it was lost since");
}

/* Else the orders that come meanwhile were dropped. */
Test(election, a_registry_that_is_behind_the_term_that_was_told_changes_nothing)
{
	etcd_put(COORDINATOR, "a", false);
	uint64_t term = etcd_created(COORDINATOR);
	fake_etcd.synced = false;
	cr_assert(election_hears(&d.control, "gpt", C, term + 3));
	unsigned told = moved;
	etcd_put("elsewhere", "1", false);
	etcd_put(COORDINATOR, NULL, false);
	etcd_back();
	tick(LEASE_MS / 2);
	cr_expect(election_believes(&d.control, "gpt", C, term + 3));
	etcd_put(COORDINATOR, "c", false);
	cr_assert_eq(etcd_created(COORDINATOR), term + 3);
	tick(LEASE_MS);
	cr_expect(election_believes(&d.control, "gpt", C, term + 3));
	cr_expect_eq(moved, told, "not for a moment did it coordinate no more");
	etcd_put(COORDINATOR, NULL, false);
	cr_expect_eq(coordinator_of(&d.control, "gpt"), NO_NODE);
}

Test(election, a_term_to_which_the_registry_does_not_come_in_the_time_of_a_lease_was_no_term)
{
	etcd_put(COORDINATOR, "a", false);
	uint64_t term = etcd_created(COORDINATOR);
	fake_etcd.synced = false;
	cr_assert(election_hears(&d.control, "gpt", C, UINT64_MAX));
	etcd_back();
	tick(LEASE_MS - 1);
	cr_expect(election_believes(&d.control, "gpt", C, UINT64_MAX));
	tick(1);
	cr_expect(election_believes(&d.control, "gpt", A, term));
}

Test(election, a_record_that_is_changed_and_not_created_anew_is_of_the_same_term)
{
	etcd_put(COORDINATOR, "a", false);
	uint64_t term = etcd_created(COORDINATOR);
	etcd_put(COORDINATOR, "a", false);
	cr_expect_eq(coordinator_term(&d.control, "gpt"), term);
	cr_expect_eq(moved, 1);
}

Test(election, an_epoch_is_recorded_in_the_term_of_who_records_it)
{
	elected();
	record_epoch();
	cr_expect(etcd_decide());
	cr_expect(recorded == 1 && !recorded_rc);
	cr_expect_str_eq(etcd_value(EPOCH), EPOCH_TEXT);
}

Test(election, an_epoch_of_a_term_that_is_over_is_not_recorded)
{
	uint64_t term = elected();
	etcd_put_unseen(COORDINATOR, NULL, false); /* the lease has ended, and this node has not heard of it */
	record_epoch();
	cr_expect(!etcd_decide(), "nobody coordinates");
	cr_expect(recorded == 1 && recorded_rc == -ESTALE);
	tick(1000);
	cr_assert(etcd_decide());
	cr_expect_gt(coordinator_term(&d.control, "gpt"), term);
	etcd_put_unseen(COORDINATOR, NULL, false);
	etcd_put_unseen(COORDINATOR, "c", false);
	record_epoch();
	cr_expect(!etcd_decide(), "another one coordinates");
	cr_expect(recorded == 2 && recorded_rc == -ESTALE);
	cr_expect(!etcd_value(EPOCH));
}

/* Each follows the one before, whose answer may come before the mirror shows it. */
Test(election, one_epoch_is_recorded_after_the_other)
{
	elected();
	for (unsigned i = 1; i <= 3; i++) {
		record_epoch();
		cr_expect(etcd_decide());
		cr_expect(recorded == i && !recorded_rc);
	}
}

/* What was asked for is applied late: it does not take the place of anything, nor does this node write over what it has not seen. */
Test(election, an_epoch_that_was_changed_unseen_is_not_written_over)
{
	elected();
	etcd_put_unseen(EPOCH, "late", false);
	record_epoch();
	cr_expect(!etcd_decide());
	cr_expect(recorded == 1 && recorded_rc == -ESTALE);
	cr_expect_str_eq(etcd_value(EPOCH), "late");
	etcd_show();
	record_epoch();
	cr_expect(etcd_decide());
	cr_expect_str_eq(etcd_value(EPOCH), EPOCH_TEXT);
}

Test(election, an_epoch_whose_record_was_deleted_is_recorded_anew)
{
	elected();
	record_epoch();
	cr_assert(etcd_decide());
	etcd_put(EPOCH, NULL, false);
	record_epoch();
	cr_expect(!etcd_decide(), "it may be that the mirror does not show it yet");
	record_epoch();
	cr_expect(etcd_decide());
	cr_expect_str_eq(etcd_value(EPOCH), EPOCH_TEXT);
}

/* Twice elected, as far as etcd knows; here it is still in its first term. */
Test(election, an_epoch_of_an_earlier_term_of_the_same_node_is_not_recorded)
{
	elected();
	etcd_put_unseen(COORDINATOR, NULL, false);
	etcd_put_unseen(COORDINATOR, "b", true);
	record_epoch();
	cr_expect(!etcd_decide());
	cr_expect(recorded == 1 && recorded_rc == -ESTALE && !etcd_value(EPOCH));
}

Test(election, nobody_knows_whether_an_epoch_was_recorded_when_no_answer_comes)
{
	elected();
	record_epoch();
	etcd_lose(-ETIMEDOUT);
	cr_expect(recorded == 1 && recorded_rc == -ETIMEDOUT);
}

Test(election, it_stops_before_its_lease_can_have_ended)
{
	elected();
	fake_etcd.lease_until = clock_deadline(CLOCK_NS_PER_S);
	cr_expect(host_here(&d.control, "gpt"));
	clock_skip(CLOCK_NS_PER_S);
	cr_expect(!host_here(&d.control, "gpt"), "before anything was polled");
	cr_expect_eq(coordinator_of(&d.control, "gpt"), NO_NODE);
	tick(0);
	cr_expect_eq(moved, 2, "it is deposed");
	cr_expect(!fake_etcd.waits, "and asks for nothing without a lease");
}

Test(election, a_lease_that_lapses_ends_all_terms_at_once)
{
	elected();
	etcd_lapse();
	cr_expect_eq(coordinator_of(&d.control, "gpt"), NO_NODE);
	cr_expect_eq(moved, 2);
}

Test(election, the_record_of_an_earlier_life_is_nobodys)
{
	etcd_put(COORDINATOR, "b", false);
	cr_expect_eq(coordinator_of(&d.control, "gpt"), NO_NODE);
	cr_expect(!election_believes(&d.control, "gpt", SELF, etcd_created(COORDINATOR)));
	tick(1000);
	cr_expect(!etcd_decide(), "it stands until that lease has ended");
	etcd_put(COORDINATOR, NULL, false);
	elected();
}

Test(election, a_node_that_is_not_in_the_roster_coordinates_nothing)
{
	etcd_put(COORDINATOR, "stranger", false);
	cr_expect_eq(coordinator_of(&d.control, "gpt"), NO_NODE);
}

Test(election, nothing_is_asked_for_that_cannot_be_decided)
{
	fake_etcd.synced = false;
	tick(1000);
	fake_etcd.synced = true;
	fake_etcd.lease_until = clock_now();
	tick(0);
	fake_etcd.lease_until = UINT64_MAX;
	job.spread = false; /* all its ranks are here */
	tick(1000);
	cr_expect_eq(fake_etcd.asked, 0);
	job.spread = true;
	tick(1000);
	cr_expect_eq(fake_etcd.asked, 1);
	tick(1000);
	cr_expect_eq(fake_etcd.asked, 1, "one at a time");
	etcd_lose(-ETIMEDOUT);
	tick(100);
	cr_expect_eq(fake_etcd.asked, 1, "not at once");
	tick(1000);
	cr_expect_eq(fake_etcd.asked, 2);
}

Test(election, who_has_coordinated_a_job_that_is_over_lets_go_of_it)
{
	elected();
	list_remove(&job.link);
	tick(1000);
	cr_expect(!fake_etcd.waits, "who comes late is told that it has ended");
	tick(601 * 1000);
	cr_assert(fake_etcd.waits);
	cr_expect(etcd_decide());
	cr_expect(!etcd_value(COORDINATOR));
	list_push(&d.jobs.list, &job.link);
}

Test(election, without_a_registry_the_first_node_coordinates)
{
	election_close(&d.control);
	d.runtime.config.registry = NULL;
	cr_expect_eq(coordinator_of(&d.control, "gpt"), A);
	cr_expect_eq(coordinator_term(&d.control, "gpt"), 0);
	cr_expect(election_believes(&d.control, "gpt", A, 0));
	cr_expect(!election_believes(&d.control, "gpt", C, 0));
	cr_expect(!election_believes(&d.control, "gpt", A, 1), "of a cluster that has a registry");
}

Test(election, when_the_daemon_ends_nothing_here_is_told_to_go_on_without_a_coordinator)
{
	tick(0);
	cr_assert(etcd_decide() && host_here(&d.control, "gpt") && moved == 1);
	election_close(&d.control);
	cr_expect_eq(moved, 1, "its workers have ended");
}
