#include "runtime/workers.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

enum { ITEMS = 200, WAIT_MS = 60000 };

struct item {
	struct work work;
	pthread_t runner, finisher;
	bool ran, done;
};

static struct pool *pool;
static struct item items[ITEMS];
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void run(struct work *work)
{
	struct item *item = list_entry(work, struct item, work);
	item->runner = pthread_self();
	item->ran = true;
}

static void run_behind_gate(struct work *work)
{
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	run(work);
}

static void done(struct work *work)
{
	struct item *item = list_entry(work, struct item, work);
	item->finisher = pthread_self();
	item->done = true;
}

static void setup(void)
{
	struct err err = {{0}};
	cr_assert_eq(pool_new(2, &pool, &err), 0, "%s", err.text);
	for (int i = 0; i < ITEMS; i++)
		items[i] = (struct item){.work = {.run = run, .done = done}};
}

TestSuite(pool, .init = setup);

static void finish(int n)
{
	struct pollfd p = {.fd = pool_event_fd(pool), .events = POLLIN};
	for (int finished = 0; finished < n;) {
		cr_assert_eq(poll(&p, 1, WAIT_MS), 1, "the pool says nothing");
		finished += pool_poll(pool);
	}
}

Test(pool, every_item_runs_on_a_worker_and_is_finished_here)
{
	for (int i = 0; i < ITEMS; i++)
		pool_submit(pool, &items[i].work);
	finish(ITEMS);
	for (int i = 0; i < ITEMS; i++) {
		cr_assert(items[i].ran && items[i].done);
		cr_assert(!pthread_equal(items[i].runner, pthread_self()));
		cr_assert(pthread_equal(items[i].finisher, pthread_self()));
	}
	pool_free(pool);
}

Test(pool, nothing_to_do_is_nothing_done)
{
	cr_assert_eq(pool_poll(pool), 0);
	pool_free(pool);
}

static int rounds;

static void submit_again(struct work *work)
{
	if (++rounds < 10)
		pool_submit(pool, work);
}

Test(pool, an_item_may_be_submitted_again_when_it_is_finished)
{
	items[0].work.done = submit_again;
	pool_submit(pool, &items[0].work);
	finish(10);
	cr_assert_eq(rounds, 10);
	pool_free(pool);
}

Test(pool, what_has_not_begun_at_the_end_is_finished_without_being_run)
{
	pthread_mutex_lock(&gate);
	for (int i = 0; i < ITEMS; i++) {
		items[i].work.run = run_behind_gate;
		pool_submit(pool, &items[i].work);
	}
	pthread_mutex_unlock(&gate);
	pool_free(pool);
	for (int i = 0; i < ITEMS; i++)
		cr_assert(items[i].done, "item %d was forgotten", i);
}
