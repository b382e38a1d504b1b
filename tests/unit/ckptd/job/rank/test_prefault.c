#include "ckptd/job_of.h"
#include "job/rank/prefault.h"

#include "base/clock.h"
#include "ckptd/job_maker.h"
#include "daemon.h"
#include "job/job.h"
#include "runtime/workers.h"

#include <criterion/criterion.h>
#include <poll.h>

enum { WAIT_MS = 60000 };

static struct daemon d;
static struct job job;
static struct memory *mem;

static void setup(void)
{
	struct err err = {{0}};
	struct table *table;
	struct layout layout;
	daemon_init(&d);
	d.runtime.config.huge_pages = HUGE_PAGES_NEVER;
	list_init(&d.jobs.list);
	job = (struct job){JOB_OF(d), .name = "main"};
	list_push(&d.jobs.list, &job.link);
	cr_assert_eq(pool_new(1, &d.runtime.pool, &err), 0, "%s", err.text);
	maker_tables(0, &table, &layout);
	cr_assert_eq(memory_create("main", table, &layout, ARENA_SLOTS_MIN, HUGE_PAGES_NEVER, &mem, &err), 0, "%s",
		     err.text);
	table_put(table);
}

static void teardown(void)
{
	pool_free(d.runtime.pool);
	prefaults_free(&d.jobs);
	memory_put(mem);
}

TestSuite(prefault, .init = setup, .fini = teardown);

static void work(void)
{
	struct pollfd p = {.fd = pool_event_fd(d.runtime.pool), .events = POLLIN};
	while (!mem->settled) {
		cr_assert_eq(poll(&p, 1, WAIT_MS), 1, "no worker does anything");
		pool_poll(d.runtime.pool);
	}
}

Test(prefault, all_of_an_arena_is_touched)
{
	prefault_start(&d.jobs, mem);
	work();
	cr_expect_null(d.jobs.prefaults);
	cr_expect_eq(mem->refs, 1u);
}

Test(prefault, it_waits_while_ranks_are_on_their_way_back_to_work)
{
	job.recovery_log.raised_ns = clock_now();
	prefault_start(&d.jobs, mem);
	prefaults_tick(&d.jobs);
	cr_assert(d.jobs.prefaults && mem->refs == 2);
	job.recovery_log.raised_ns = 0;
	prefaults_tick(&d.jobs);
	cr_assert_null(d.jobs.prefaults);
	work();
}

Test(prefault, it_tells_how_much_is_settled)
{
	uint32_t woken = atomic_load(&mem->head->wake);
	cr_assert_eq(atomic_load(&mem->head->settled), 0u);
	prefault_start(&d.jobs, mem);
	work();
	cr_assert_eq(atomic_load(&mem->head->settled), mem->size);
	cr_assert_neq(atomic_load(&mem->head->wake), woken);
}

/* It pins them, and does not go on before. */
Test(prefault, it_does_not_wait_where_a_rank_waits_for_the_pages)
{
	job.recovery_log.raised_ns = clock_now();
	prefault_start(&d.jobs, mem);
	prefaults_tick(&d.jobs);
	cr_assert(d.jobs.prefaults);
	atomic_store(&mem->head->pinning, 1);
	prefaults_tick(&d.jobs);
	cr_assert_null(d.jobs.prefaults);
	work();
	cr_assert_eq(atomic_load(&mem->head->settled), mem->size);
}

Test(prefault, what_waits_is_given_up_with_its_job)
{
	struct memory *held = memory_get(mem);
	job.recovery_log.raised_ns = clock_now();
	prefault_start(&d.jobs, mem);
	cr_assert_eq(mem->refs, 3u);
	memory_put(held);
	memory_put(mem); /* what waits has the last reference */
	job.recovery_log.raised_ns = 0;
	prefaults_tick(&d.jobs);
	cr_expect_null(d.jobs.prefaults);
	cr_expect_eq(pool_poll(d.runtime.pool), 0u);
	mem = NULL;
}

Test(prefault, what_waits_ends_with_the_daemon)
{
	job.recovery_log.raised_ns = clock_now();
	prefault_start(&d.jobs, mem);
	prefaults_free(&d.jobs);
	cr_expect_null(d.jobs.prefaults);
	cr_expect_eq(mem->refs, 1u);
}
