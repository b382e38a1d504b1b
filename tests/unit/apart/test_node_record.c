/* The record by which others know that this daemon is there. */
#include "control/election/node_record.h"

#include "base/clock.h"
#include "cluster/roster.h"
#include "fakes.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static struct daemon d;
static char registry; /* nobody looks into it */

static void setup(void)
{
	static const char text[] = "a 10.0.0.1:7\nb 10.0.0.2:8\nc 10.0.0.3:9\n";
	struct err err = {{0}};
	fakes_reset();
	daemon_init(&d);
	d.peers.self = 1;
	d.control.registry = (struct registry *)&registry;
	cr_assert_eq(roster_parse("test", text, strlen(text), &d.peers.roster, &err), 0, "%s", err.text);
	fake_registry.synced = true;
	fake_registry.lease_until = clock_deadline(CLOCK_NS_PER_S);
	fake_registry.up[0] = fake_registry.up[2] = true;
}

static void teardown(void)
{
	roster_free(d.peers.roster);
}

TestSuite(node_record, .init = setup, .fini = teardown);

/* Ticks for so long: how often it has asked. */
static unsigned asked_within(uint64_t ms)
{
	unsigned before = fake_registry.commits;
	for (uint64_t n = 0; n < ms; n += 50) {
		node_record_tick(&d.control);
		clock_skip(50 * CLOCK_NS_PER_MS);
		fake_registry.lease_until = clock_deadline(CLOCK_NS_PER_S);
	}
	return fake_registry.commits - before;
}

Test(node_record, it_is_written_once_under_the_lease)
{
	cr_expect_eq(asked_within(10000), 1, "while nobody has said what became of it");
	cr_expect_str_eq(fake_registry.key, "nodes/b");
	cr_expect(!strncmp(fake_registry.value, "10.0.0.2:8", 10), "%s", fake_registry.value);
	cr_expect(fake_registry.leased);
	fake_decided((struct registry_result){.applied = true});
	fake_record("nodes/b", true);
	cr_expect_eq(asked_within(10000), 0);
}

Test(node_record, it_is_written_again_when_it_is_gone_or_was_never_written)
{
	for (unsigned n = 1; n <= 3; n++) { /* as after a request of which nobody knows whether it was applied */
		cr_expect_eq(asked_within(1000), 1);
		fake_decided((struct registry_result){.rc = -ETIMEDOUT});
	}
	fake_record("nodes/b", true);
	cr_expect_eq(asked_within(2000), 0);
	fake_record_gone("nodes/b"); /* the lease has ended, and there is another one */
	cr_expect_eq(asked_within(2000), 1);
	fake_decided((struct registry_result){.applied = true});
}

Test(node_record, one_of_an_earlier_life_is_not_ours)
{
	fake_record("nodes/b", false);
	cr_expect_eq(asked_within(2000), 1);
	fake_decided((struct registry_result){.applied = true});
	fake_record("nodes/b", true);
	cr_expect_eq(asked_within(2000), 0);
}

Test(node_record, nothing_is_asked_for_without_a_lease_or_of_a_registry_that_is_away)
{
	fake_registry.lease_until = 0;
	node_record_tick(&d.control);
	fake_registry.lease_until = clock_now();
	node_record_tick(&d.control);
	fake_registry.lease_until = clock_deadline(CLOCK_NS_PER_S);
	fake_registry.synced = false;
	node_record_tick(&d.control);
	cr_expect_eq(fake_registry.commits, 0);
	fake_registry.synced = true;
	node_record_tick(&d.control);
	cr_expect_eq(fake_registry.commits, 1);
	fake_decided((struct registry_result){.applied = true});
}

Test(node_record, where_it_is_not_taken_it_is_tried_again_later)
{
	fake_registry.commit_rc = -ENOBUFS;
	unsigned tries = asked_within(5000);
	cr_expect(tries >= 5 && tries <= 11, "%u in 5 s", tries);
}

Test(node_record, who_is_on_the_way_is_waited_for)
{
	cr_expect(node_records_settled(&d.control), "all are there");
	fake_registry.up[2] = false;
	cr_expect(node_records_settled(&d.control), "the registry says that it is not");
	fake_record("nodes/c", false);
	cr_expect(!node_records_settled(&d.control), "it is there, and there is no session with it yet");
	fake_registry.up[2] = true;
	cr_expect(node_records_settled(&d.control));
	fake_registry.up[2] = false;
	fake_record_gone("nodes/c");
	cr_expect(node_records_settled(&d.control));
}

Test(node_record, a_registry_that_is_away_settles_nothing)
{
	fake_registry.synced = false;
	cr_expect(!node_records_settled(&d.control));
	fake_registry.synced = true;
	d.control.registry = NULL;
	cr_expect(!node_records_settled(&d.control));
}
