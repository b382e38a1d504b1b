/* A coordinator that the nodes of its job cannot reach, as they see it and as it does. There is no net here: nobody reaches anybody. */
#include "control/election/cut_off.h"

#include "control/control.h"
#include "fake_etcd.h"
#include "node_of_three.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define COORDINATOR "jobs/gpt/coordinator"
#define OURS "jobs/gpt/cut-off/b"
#define OF_A "jobs/gpt/cut-off/a"
#define OF_C "jobs/gpt/cut-off/c"

static struct daemon d;
static struct job job;
static struct rank ranks[3];

static void on_moved(struct dispatch *dispatch, const char *name)
{
	(void)dispatch, (void)name;
}

/* A node of three, with two ranks of a job; the process of a third is gone. */
static void setup(void)
{
	ranks[0] = (struct rank){.pid = 70};
	ranks[1] = (struct rank){.launched = 71};
	ranks[2] = (struct rank){.pid = 0};
	job = (struct job){.nlocal = 3, .ranks = ranks};
	node_open(&d, &job, on_moved);
}

static void teardown(void)
{
	node_close(&d);
}

TestSuite(cut_off, .init = setup, .fini = teardown);

static void tick(uint64_t ms)
{
	node_tick(&d, ms);
}

/* What our record says in that term. */
static const char *said(uint64_t term)
{
	static char text[48];
	snprintf(text, sizeof(text), "%lu 2 2", (unsigned long)term);
	return text;
}

static void say(const char *key, uint64_t term, unsigned reached)
{
	char text[48];
	snprintf(text, sizeof(text), "%lu 1 %u", (unsigned long)term, reached);
	etcd_put(key, text, false);
}

static bool gives_way(uint64_t term, uint32_t reached)
{
	char why[WIRE_TEXT_MAX];
	return cut_off_gives_way(&d.control, "gpt", term, reached, why, sizeof(why));
}

/* This node is elected. Returns its term. */
static uint64_t elected(void)
{
	tick(1000);
	cr_assert(etcd_decide());
	cr_assert_str_eq(etcd_value(COORDINATOR), "b");
	return etcd_created(COORDINATOR);
}

Test(cut_off, a_node_says_so_when_it_has_not_reached_the_coordinator_for_a_lease)
{
	etcd_put(COORDINATOR, "a", false);
	tick(0);
	tick(LEASE_MS - 1);
	cr_expect(!fake_etcd.waits, "it may come back");
	tick(1);
	cr_assert(fake_etcd.waits && fake_etcd.own_leased && etcd_decide());
	cr_expect_str_eq(etcd_value(OURS), said(etcd_created(COORDINATOR)));
	unsigned before = fake_etcd.asked;
	tick(10000);
	cr_expect_eq(fake_etcd.asked, before, "it is said once");
}

Test(cut_off, what_was_said_of_one_term_is_taken_back_and_each_term_has_its_time)
{
	etcd_put(COORDINATOR, "a", false);
	tick(0);
	tick(LEASE_MS);
	cr_assert(etcd_decide());
	etcd_put(COORDINATOR, NULL, false);
	etcd_put(COORDINATOR, "c", false);
	tick(1000);
	cr_assert(etcd_decide());
	cr_expect_null(etcd_value(OURS), "the next one was elected just now");
	tick(LEASE_MS);
	cr_assert(etcd_decide());
	cr_expect_str_eq(etcd_value(OURS), said(etcd_created(COORDINATOR)));
	etcd_put(COORDINATOR, NULL, false);
	elected();
	tick(1000);
	cr_assert(etcd_decide());
	cr_expect_null(etcd_value(OURS), "we coordinate ourselves");
}

Test(cut_off, a_node_without_ranks_of_the_job_says_nothing)
{
	ranks[0].pid = ranks[1].launched = 0;
	etcd_put(COORDINATOR, "a", false);
	tick(0);
	tick(10000);
	cr_expect(!fake_etcd.waits);
}

Test(cut_off, a_coordinator_stays_for_as_many_as_it_reaches)
{
	uint64_t term = elected();
	cr_expect(!gives_way(term, 0), "nobody has said anything");
	say(OF_A, term, 2);
	cr_expect(!gives_way(term, 2));
	cr_expect(gives_way(term, 1));
	say(OF_C, term, 3);
	cr_expect(gives_way(term, 2));
	cr_expect(!gives_way(term, 3), "that they are more together is nothing: they do not reach one another");
}

Test(cut_off, what_is_not_of_this_term_or_of_no_node_does_not_count)
{
	static const char *const wrong[] = {"",      "7",       "7 9",
					    "x 1 9", "1 2 3 4", "99999999999999999999999999999999999999999999999999"};
	uint64_t term = elected();
	say(OF_A, term - 1, 9);
	say("jobs/gpt/cut-off/nobody", term, 9);
	say("jobs/other/cut-off/c", term, 9);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		etcd_put(OF_C, wrong[i], false);
		cr_expect(!gives_way(term, 0), "%s", wrong[i]);
	}
}

Test(cut_off, who_gives_way_lets_others_be_elected_first)
{
	uint64_t term = elected();
	say(OF_A, term, 1);
	cr_expect(host_here(&d.control, "gpt"));
	tick(1000);
	cr_assert(fake_etcd.waits);
	cr_expect_not(host_here(&d.control, "gpt"), "another may be elected as soon as the record is gone");
	cr_assert(etcd_decide());
	cr_expect_null(etcd_value(COORDINATOR));
	tick(2 * LEASE_MS);
	cr_expect(!fake_etcd.waits, "others may come");
	tick(LEASE_MS);
	cr_assert(etcd_decide(), "nobody has");
	cr_expect_str_eq(etcd_value(COORDINATOR), "b");
	cr_expect_neq(etcd_created(COORDINATOR), term, "what was said of the earlier term does not count");
	unsigned before = fake_etcd.asked;
	tick(1000);
	cr_expect_eq(fake_etcd.asked, before);
}

Test(cut_off, who_gives_way_does_so_until_its_record_is_gone)
{
	uint64_t term = elected();
	say(OF_A, term, 1);
	tick(1000);
	etcd_lose(-ETIMEDOUT);
	etcd_put(OF_A, NULL, false);
	job.spread = false; /* no rank of it is here any more */
	tick(1000);
	cr_expect_not(host_here(&d.control, "gpt"), "in that term never again");
	cr_assert(fake_etcd.waits && etcd_decide());
	cr_expect_null(etcd_value(COORDINATOR));
}
