/* Workers of the simulator: an item runs, in random order, when the pool is polled. */
#include "base/cleanup.h"
#include "rng.h"
#include "runtime/workers.h"
#include "world.h"

struct pool {
	struct list queue;
	unsigned n;
};

int pool_new(unsigned threads, struct pool **out, struct err *err)
{
	(void)threads;
	struct pool *pool = calloc(1, sizeof(*pool));
	if (!pool)
		return err_set(err, -ENOMEM, "no memory");
	list_init(&pool->queue);
	*out = pool;
	return 0;
}

static struct work *take(struct pool *pool, uint64_t index)
{
	struct list *node = pool->queue.next;
	while (index--)
		node = node->next;
	list_remove(node);
	pool->n--;
	return list_entry(node, struct work, link);
}

void pool_submit(struct pool *pool, struct work *work)
{
	list_push(&pool->queue, &work->link);
	pool->n++;
}

int pool_event_fd(struct pool *pool)
{
	(void)pool;
	return -1;
}

int pool_poll(struct pool *pool)
{
	if (!pool->n)
		return 0;
	struct work *work = take(pool, rng_below(world_rng(), pool->n));
	world_enter_threads();
	work->run(work);
	world_leave_threads();
	work->done(work);
	return 1;
}

void pool_free(struct pool *pool)
{
	if (!pool)
		return;
	while (pool->n) {
		struct work *work = take(pool, 0);
		work->done(work);
	}
	free(pool);
}
