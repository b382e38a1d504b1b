/* The worker threads of ckptd: items that are submitted from several threads and again from their own end, pools that are freed in
 * the middle of it. For the thread sanitizer. */
#include "check.h"

#include "runtime/workers.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { POOLS = 30, SUBMITTERS = 3, ITEMS = 300, AGAIN = 3, WAIT_MS = 30000 };

struct item {
	struct work work;
	unsigned ran, done; /* plain: handing an item over must order them */
};

static struct pool *pool;
static struct item items[SUBMITTERS][ITEMS];
static unsigned finished;

static void run(struct work *work)
{
	struct item *item = list_entry(work, struct item, work);
	CHECK(item->ran == item->done);
	item->ran++;
}

static void done(struct work *work)
{
	struct item *item = list_entry(work, struct item, work);
	item->done++;
	finished++;
	if (item->done < AGAIN)
		pool_submit(pool, work);
}

static void *submit_all(void *arg)
{
	struct item *mine = arg;
	for (int i = 0; i < ITEMS; i++)
		pool_submit(pool, &mine[i].work);
	return NULL;
}

static void one_pool(unsigned enough)
{
	struct err err = {{0}};
	pthread_t threads[SUBMITTERS];
	finished = 0;
	CHECK(!pool_new(4, &pool, &err));
	for (int s = 0; s < SUBMITTERS; s++)
		for (int i = 0; i < ITEMS; i++)
			items[s][i] = (struct item){.work = {.run = run, .done = done}};
	for (int s = 0; s < SUBMITTERS; s++)
		CHECK(!pthread_create(&threads[s], NULL, submit_all, items[s]));
	struct pollfd p = {.fd = pool_event_fd(pool), .events = POLLIN};
	while (finished < enough) {
		CHECK(poll(&p, 1, WAIT_MS) == 1);
		pool_poll(pool);
	}
	for (int s = 0; s < SUBMITTERS; s++)
		pthread_join(threads[s], NULL);
	pool_free(pool);
	for (int s = 0; s < SUBMITTERS; s++)
		for (int i = 0; i < ITEMS; i++)
			CHECK(items[s][i].done == AGAIN && items[s][i].ran <= AGAIN);
}

int main(void)
{
	for (unsigned n = 0; n < POOLS; n++)
		one_pool(n % 3 ? n * (SUBMITTERS * ITEMS * AGAIN / POOLS) : SUBMITTERS * ITEMS * AGAIN);
	return 0;
}
