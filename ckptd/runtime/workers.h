/* Worker threads for what would keep the loop busy: digests, prefaulting, reading back, restoring. An item runs on a worker
 * and is finished on the loop's thread. The number of items is bounded by those who submit: each owns its items. */
#ifndef CKPTD_RUNTIME_WORKERS_H
#define CKPTD_RUNTIME_WORKERS_H

#include "base/err.h"
#include "base/list.h"

struct pool;

struct work {
	void (*run)(struct work *work);  /* on a worker; must not touch what the loop may change */
	void (*done)(struct work *work); /* on the thread that calls pool_poll; may free the item */
	struct list link;
};

/* threads: 0 is one per core, at most 8. */
int pool_new(unsigned threads, struct pool **out, struct err *err);
/* Waits for what runs and finishes it; what has not started is finished without being run. */
void pool_free(struct pool *pool);
void pool_submit(struct pool *pool, struct work *work);
/* Becomes readable when pool_poll has something to do. */
int pool_event_fd(struct pool *pool);
/* Calls `done` of the finished items. Number of items. */
int pool_poll(struct pool *pool);

#endif
