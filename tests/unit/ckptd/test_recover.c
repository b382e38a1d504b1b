/* What a node says it has, to restore from. */
#include "daemon.h"
#include "job.h"
#include "pool.h"
#include "roster.h"

#include "base/log.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>

static struct daemon here;
static struct job job;
static struct rank ranks[2];

static void setup(void)
{
	static const char text[] = "n0 127.0.0.1:7000\nn1 127.0.0.1:7001\n";
	struct err err = {{0}};
	log_set_level(LOG_ERROR);
	here = (struct daemon){.root = -1};
	list_init(&here.jobs);
	list_init(&here.chairs);
	cr_assert_eq(roster_parse("nodes", text, strlen(text), &here.roster, &err), 0, "%s", err.text);
	cr_assert_eq(pool_new(1, &here.pool, &err), 0, "%s", err.text);
	job = (struct job){
		.daemon = &here, .name = "main", .world = 4, .nlocal = 2, .epoch = 1, .spread = true, .ranks = ranks};
	for (uint32_t r = 0; r < job.nlocal; r++)
		ranks[r] = (struct rank){.job = &job, .id = r, .index = r, .pidfd = -1};
	saves_init(&job.saves, &here, &job);
	copies_init(&job.copies, &job);
	recover_init(&job.recover, &job);
	list_push(&here.jobs, &job.link);
}

static void teardown(void)
{
	pool_free(here.pool);
	saves_free(&job.saves);
	roster_free(here.roster);
}

TestSuite(recover, .init = setup, .fini = teardown);

/* The next change of the world may begin before the processes of the last plan have registered. */
Test(recover, who_has_no_arenas_yet_says_that_nothing_is_there)
{
	struct pollfd fd = {.fd = pool_event_fd(here.pool), .events = POLLIN};
	recover_look(&job.recover, UINT64_MAX);
	cr_assert_not(recover_idle(&job.recover));
	while (job.recover.state == RECOVER_LOOK) {
		cr_assert_eq(poll(&fd, 1, 10000), 1, "nobody looks");
		pool_poll(here.pool);
	}
	cr_expect_eq(job.recover.state, RECOVER_FOUND);
	cr_expect_null(job.recover.work);
}
