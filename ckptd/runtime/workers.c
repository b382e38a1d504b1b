#include "runtime/workers.h"

#include "base/cleanup.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { POOL_THREADS_MAX = 8 };

struct pool {
	pthread_mutex_t lock; /* queue, finished, stopping */
	pthread_cond_t wake;
	struct list queue, finished;
	bool stopping;
	int event;
	unsigned nthreads;
	pthread_t threads[POOL_THREADS_MAX];
};

static struct list *next_item(struct pool *pool)
{
	LOCK_SCOPE(&pool->lock);
	while (list_empty(&pool->queue) && !pool->stopping)
		pthread_cond_wait(&pool->wake, &pool->lock);
	return pool->stopping ? NULL : list_pop(&pool->queue);
}

static void finish_item(struct pool *pool, struct list *node)
{
	pthread_mutex_lock(&pool->lock);
	list_push(&pool->finished, node);
	pthread_mutex_unlock(&pool->lock);
	uint64_t one = 1;
	ssize_t ignored = write(pool->event, &one, sizeof(one)); /* full means: already readable */
	(void)ignored;
}

static void *worker(void *arg)
{
	struct pool *pool = arg;
	for (struct list *node; (node = next_item(pool));) {
		struct work *work = list_entry(node, struct work, link);
		work->run(work);
		finish_item(pool, node);
	}
	return NULL;
}

static void stop_threads(struct pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	pool->stopping = true;
	pthread_cond_broadcast(&pool->wake);
	pthread_mutex_unlock(&pool->lock);
	for (unsigned i = 0; i < pool->nthreads; i++)
		pthread_join(pool->threads[i], NULL);
}

static unsigned default_threads(unsigned threads)
{
	if (!threads) {
		long cores = sysconf(_SC_NPROCESSORS_ONLN);
		threads = cores > 0 ? (unsigned)cores : 1;
	}
	return threads > POOL_THREADS_MAX ? POOL_THREADS_MAX : threads;
}

/* Workers take no signals: those are the loop's. */
static int start_threads(struct pool *pool, unsigned threads)
{
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int rc = 0;
	while (!rc && pool->nthreads < threads) {
		rc = -pthread_create(&pool->threads[pool->nthreads], NULL, worker, pool);
		if (!rc)
			pool->nthreads++;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

int pool_new(unsigned threads, struct pool **out, struct err *err)
{
	struct pool *pool = calloc(1, sizeof(*pool));
	if (!pool)
		return err_set(err, -ENOMEM, "no memory for the worker pool");
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->wake, NULL);
	list_init(&pool->queue);
	list_init(&pool->finished);
	pool->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int rc = pool->event < 0 ? -errno : start_threads(pool, default_threads(threads));
	if (rc) {
		pool_free(pool);
		return err_set(err, rc, "cannot start worker threads: %s", err_name(rc));
	}
	*out = pool;
	return 0;
}

void pool_free(struct pool *pool)
{
	if (!pool)
		return;
	stop_threads(pool);
	pool_poll(pool);
	for (struct list *node; (node = list_pop(&pool->queue));) {
		struct work *work = list_entry(node, struct work, link);
		work->done(work);
	}
	if (pool->event >= 0)
		close(pool->event);
	pthread_cond_destroy(&pool->wake);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

void pool_submit(struct pool *pool, struct work *work)
{
	LOCK_SCOPE(&pool->lock);
	list_push(&pool->queue, &work->link);
	pthread_cond_signal(&pool->wake);
}

int pool_event_fd(struct pool *pool)
{
	return pool->event;
}

int pool_poll(struct pool *pool)
{
	uint64_t count;
	ssize_t ignored = read(pool->event, &count, sizeof(count));
	(void)ignored;
	int n = 0;
	for (;; n++) {
		pthread_mutex_lock(&pool->lock);
		struct list *node = list_pop(&pool->finished);
		pthread_mutex_unlock(&pool->lock);
		if (!node)
			return n;
		struct work *work = list_entry(node, struct work, link);
		work->done(work);
	}
}
