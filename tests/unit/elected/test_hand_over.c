/* A coordinator hands its job over to another node: what it writes, and what the others make of it. There is no net here. */
#include "control/election/hand_over.h"

#include "control/control.h"
#include "control/election/heir.h"
#include "control/election/reach.h"
#include "fake_etcd.h"
#include "node_of_three.h"
#include "participant/room.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define COORDINATOR "jobs/gpt/coordinator"
#define HEIR "jobs/gpt/heir"

static struct daemon d;
static struct job job;

static void on_moved(struct dispatch *dispatch, const char *name)
{
	(void)dispatch, (void)name;
}

static void setup(void)
{
	job = (struct job){.nlocal = 0};
	node_open(&d, &job, on_moved);
}

static void teardown(void)
{
	node_close(&d);
}

TestSuite(hand_over, .init = setup, .fini = teardown);

static void tick(uint64_t ms)
{
	node_tick(&d, ms);
}

/* This node is elected. Returns its term. */
static uint64_t elected(void)
{
	tick(1000);
	cr_assert(etcd_decide());
	cr_assert(host_here(&d.control, "gpt"));
	return coordinator_term(&d.control, "gpt");
}

/* Node a coordinated the job in that term, and nobody does now. */
static void handed_over_by_a(const char *heir, uint64_t less)
{
	char text[HEIR_MAX];
	etcd_put(COORDINATOR, "a", false);
	tick(0);
	heir_text(etcd_created(COORDINATOR) - less, heir, text);
	etcd_put(HEIR, text, false);
	etcd_put(COORDINATOR, NULL, false);
}

Test(hand_over, one_transaction_takes_the_record_away_and_says_who_comes_next)
{
	char text[HEIR_MAX];
	uint64_t term = elected();
	unsigned before = fake_etcd.asked;
	cr_assert(election_may_hand_over(&d.control, "gpt"));
	election_hand_over(&d.control, "gpt", C);
	cr_expect_not(host_here(&d.control, "gpt"), "another may be elected as soon as the record is gone");
	cr_expect_eq(fake_etcd.asked, before + 1);
	cr_assert(etcd_decide());
	cr_expect_null(etcd_value(COORDINATOR));
	heir_text(term, "c", text);
	cr_expect_str_eq(etcd_value(HEIR), text);
	tick(LEASE_MS);
	cr_expect_eq(fake_etcd.asked, before + 1, "the heir has not come, and the others come first");
	tick(500);
	cr_assert(fake_etcd.waits && etcd_decide(), "nobody has");
	cr_expect_str_eq(etcd_value(COORDINATOR), "b");
	cr_expect_null(etcd_value(HEIR), "it was of an earlier term");
}

Test(hand_over, whose_record_may_not_be_gone_takes_it_away_and_coordinates_no_more)
{
	elected();
	election_hand_over(&d.control, "gpt", C);
	etcd_lose(-ETIMEDOUT);
	tick(1000);
	cr_expect_not(host_here(&d.control, "gpt"), "in that term never again");
	cr_assert(etcd_decide());
	cr_expect_null(etcd_value(COORDINATOR));
}

Test(hand_over, only_who_coordinates_and_reaches_the_registry_hands_over)
{
	cr_expect_not(election_may_hand_over(&d.control, "gpt"), "nobody coordinates");
	elected();
	cr_expect_not(election_may_hand_over(&d.control, "other"));
	fake_etcd.synced = false;
	cr_expect_not(election_may_hand_over(&d.control, "gpt"), "the registry is away");
	fake_etcd.synced = true;
	cr_expect(election_may_hand_over(&d.control, "gpt"));
	etcd_put(COORDINATOR, NULL, false);
	etcd_put(COORDINATOR, "a", false);
	cr_expect_not(election_may_hand_over(&d.control, "gpt"), "another node coordinates");
}

Test(hand_over, the_heir_asks_at_once_although_it_has_handed_over_before)
{
	elected();
	election_hand_over(&d.control, "gpt", A);
	cr_assert(etcd_decide());
	handed_over_by_a("b", 0);
	tick(1000);
	cr_assert(fake_etcd.waits && etcd_decide());
	cr_expect_str_eq(etcd_value(COORDINATOR), "b");
	cr_expect_null(etcd_value(HEIR));
}

Test(hand_over, others_give_the_heir_the_time_of_a_lease)
{
	handed_over_by_a("c", 0);
	tick(LEASE_MS - 1);
	cr_expect_not(fake_etcd.waits);
	tick(1);
	cr_assert(fake_etcd.waits && etcd_decide());
	cr_expect_str_eq(etcd_value(COORDINATOR), "b");
}

Test(hand_over, an_heir_of_another_term_comes_after_nobody)
{
	handed_over_by_a("c", 1);
	tick(1000);
	cr_expect(fake_etcd.waits);
}

Test(hand_over, what_is_no_heir_keeps_nobody_waiting)
{
	static const char *const wrong[] = {"", "c", "7", "99999999999999999999999999999999999999999999999999", "x c"};
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		etcd_put(HEIR, wrong[i], false);
		cr_expect_eq(heir_of(&d.control, "gpt", 1, 0), HEIR_NOBODY, "%s", wrong[i]);
	}
}

Test(hand_over, an_answer_that_nobody_has_asked_for_changes_nothing)
{
	elected();
	unsigned before = fake_etcd.asked;
	for (uint64_t number = 0; number < 9; number++)
		hand_over_answer(&d.control, C, number, true);
	cr_expect(host_here(&d.control, "gpt"));
	cr_expect_eq(fake_etcd.asked, before);
}
