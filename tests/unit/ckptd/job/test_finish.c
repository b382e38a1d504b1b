/* When the launcher of a node that has finished is let go: job/finish.c, out of reach of the coordinator. */
#include "ckptd/job_of.h"
#include "job/finish.h"

#include "base/clock.h"
#include "base/log.h"
#include "cluster/roster.h"
#include "daemon.h"
#include "job/job.h"
#include "job/restoring.h"
#include "job/saving.h"

#include <criterion/criterion.h>
#include <string.h>

enum { LOCAL = 2, JOIN_MS = 60000 };

static struct daemon here;
static struct job job;
static struct rank ranks[LOCAL];
static struct memory mem;

static void setup(void)
{
	static const char text[] = "n0 127.0.0.1:7000\nn1 127.0.0.1:7001\n";
	struct err err = {{0}};
	log_set_level(LOG_ERROR);
	daemon_init(&here); /* where no host is: it answers nothing */
	list_init(&here.jobs.list);
	list_init(&here.control.hosts);
	outbox_init(&here.control.outbox);
	cr_assert_eq(roster_parse("nodes", text, strlen(text), &here.peers.roster, &err), 0, "%s", err.text);
	job = (struct job){JOB_OF(here),
			   .name = "main",
			   .world = 2 * LOCAL,
			   .nlocal = LOCAL,
			   .spread = true,
			   .epoch = 1,
			   .policy.join_timeout_ms = JOIN_MS,
			   .ranks = ranks};
	for (uint32_t r = 0; r < LOCAL; r++)
		ranks[r] = (struct rank){.job = &job, .id = r, .index = r, .state = RANK_LEFT};
	ranks[1].mem = &mem; /* the first has none yet: nothing is said of shares */
	copying_init(&job);
	job_init_saves(&job);
	job_init_restore(&job);
	list_push(&here.jobs.list, &job.link);
}

static void teardown(void)
{
	roster_free(here.peers.roster);
}

TestSuite(finish, .init = setup, .fini = teardown);

/* Nobody has heard of it for so long. */
static void wait_ms(uint64_t ms)
{
	job.finish.since_ns = clock_now() - ms * CLOCK_NS_PER_MS;
	finish_tick(&job);
}

Test(finish, who_is_not_heard_for_join_timeout_is_let_go)
{
	finish_tick(&job);
	cr_expect_eq(job.finish.stand, FINISH_SAID);
	wait_ms(JOIN_MS / 2);
	cr_expect_eq(job.finish.stand, FINISH_SAID);
	wait_ms(JOIN_MS + 1);
	cr_expect_eq(job.finish.stand, FINISH_OVER);
}

Test(finish, as_long_as_the_coordinator_says_that_it_stays_it_does)
{
	finish_tick(&job);
	finish_hear(&job, PEER_STAYS);
	wait_ms(2 * JOIN_MS);
	cr_expect_eq(job.finish.stand, FINISH_HEARD);
	finish_apart(&job);
	finish_tick(&job);
	cr_expect_eq(job.finish.stand, FINISH_SAID, "from now on it counts");
	wait_ms(JOIN_MS + 1);
	cr_expect_eq(job.finish.stand, FINISH_OVER);
}

Test(finish, with_a_new_epoch_its_ranks_have_all_of_join_timeout_to_start)
{
	finish_tick(&job);
	job.epoch = 2;
	wait_ms(JOIN_MS + 1);
	cr_expect_neq(job.finish.stand, FINISH_OVER);
	wait_ms(JOIN_MS + 1);
	cr_expect_eq(job.finish.stand, FINISH_OVER);
}

/* As after the end of a job of which a cut kept it from hearing: ckpt run is started again, and has no process yet. */
Test(finish, a_launcher_that_comes_has_all_of_join_timeout)
{
	finish_tick(&job);
	job.finish.since_ns = clock_now() - (JOIN_MS + 1) * CLOCK_NS_PER_MS;
	finish_greet(&job);
	finish_tick(&job);
	cr_expect_eq(job.finish.stand, FINISH_SAID);
	wait_ms(JOIN_MS + 1);
	cr_expect_eq(job.finish.stand, FINISH_OVER);
}

Test(finish, a_rank_that_is_there_or_failed_ends_it)
{
	finish_tick(&job);
	ranks[1].failed = true;
	wait_ms(JOIN_MS + 1);
	cr_expect_eq(job.finish.stand, FINISH_NONE);
	ranks[1].failed = false;
	ranks[1].pid = 7;
	finish_tick(&job);
	cr_expect_eq(job.finish.stand, FINISH_NONE);
}
