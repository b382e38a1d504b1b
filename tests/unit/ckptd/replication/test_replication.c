/* Jobs that a node knows of: without a net nothing of them is sent or asked. */
#include "cluster/room.h"
#include "replication/room.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { MANY = 20000, KEPT = 4096, USED_EVERY = 1000 };

static struct roster *roster;
static struct replica *replica;

static void setup(void)
{
	static const char text[] = "a 127.0.0.1:7000\n";
	static const uint64_t no_limit = 0;
	struct err err;
	cr_assert_eq(roster_parse("roster", text, strlen(text), &roster, &err), 0, "%s", err.text);
	const struct replica_config config = {.roster = roster, .bandwidth = &no_limit};
	cr_assert_eq(replica_new(&config, &replica), 0);
}

static void teardown(void)
{
	replica_free(replica);
	roster_free(roster);
}

TestSuite(replication, .init = setup, .fini = teardown);

static void begin(unsigned number)
{
	char name[NAME_JOB_MAX];
	snprintf(name, sizeof(name), "job-%u", number);
	replica_epoch(replica, name, 1);
	cr_assert_eq(replica_known_epoch(replica, name), 1, "%s has no place", name);
}

Test(replication, jobs_that_are_over_do_not_keep_the_next_ones_out)
{
	for (unsigned i = 0; i < MANY; i++) {
		begin(i);
		if (i % USED_EVERY == 0)
			replica_epoch(replica, "long", 1 + i / USED_EVERY);
		replica_tick(replica);
	}
	cr_expect_eq(replica_known_epoch(replica, "job-0"), 0, "it was used longest ago");
	cr_expect_eq(replica_known_epoch(replica, "long"), MANY / USED_EVERY, "it was used now and again");
}

Test(replication, as_many_as_there_is_place_for_are_known)
{
	for (unsigned i = 0; i < KEPT; i++)
		begin(i);
	replica_epoch(replica, "beyond", 1);
	cr_expect_eq(replica_known_epoch(replica, "beyond"), 0);
	replica_tick(replica);
	replica_epoch(replica, "beyond", 1);
	cr_expect_eq(replica_known_epoch(replica, "beyond"), 1);
}
