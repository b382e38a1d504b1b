/* Rate limits: bytes per second, as token buckets on the clock. A limit holds over any time: at most rate × time and a burst of
 * THROTTLE_BURST go through. Each write passes two buckets, that of its job and that of the node. A write that must wait queues; turns go
 * round in the order of asking, but a job that is at its own limit lets others pass.
 *
 * Everything here belongs to the loop's thread, but struct meter, for reads on workers. */
#ifndef CKPTD_RUNTIME_RATE_LIMIT_H
#define CKPTD_RUNTIME_RATE_LIMIT_H

#include "base/clock.h"
#include "base/list.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define THROTTLE_BURST (40 * CLOCK_NS_PER_MS)

/* Virtual time: paid_ns is when everything that went through has been paid for. */
struct bucket {
	const uint64_t *rate; /* bytes/s, 0: no limit; read at each turn, so that a change takes effect at once */
	uint64_t paid_ns;
};

struct throttle {
	struct bucket node;
	struct list waiting; /* struct turn */
	bool open, pumping;
};

/* A wish to move bytes. Must stay until `go` was called. */
struct turn {
	struct bucket *job;
	/* All that is left to move. In `go` it is what may be moved now: the same where nothing is limited, else some 31 ms worth in
	 * whole blocks. 0: goes at the next pump, whatever the limits. */
	uint64_t bytes;
	void (*go)(struct turn *turn);
	struct list link; /* private */
};

void throttle_init(struct throttle *t, const uint64_t *rate);
bool throttle_limited(const struct throttle *t, const struct bucket *job);
/* Calls go now or from a later throttle_pump. */
void throttle_ask(struct throttle *t, struct turn *turn);
/* Lets go what may; to be called every few milliseconds while throttle_waiting(). */
void throttle_pump(struct throttle *t);
bool throttle_waiting(const struct throttle *t);
/* From here on nothing waits: the daemon ends. */
void throttle_open(struct throttle *t);

/* The limit of reads, which run on workers: they are told afterwards what they have read, and sleep until it is paid for. */
struct meter {
	pthread_mutex_t lock;
	uint64_t rate;
	struct bucket node;
	_Atomic bool open;
};

void meter_init(struct meter *m, uint64_t rate);
void meter_set(struct meter *m, uint64_t rate);
void meter_open(struct meter *m);
/* job: a bucket of the caller's own. Returns when both are paid, or soon after meter_open or a change of the limit. */
void meter_wait(struct meter *m, struct bucket *job, uint64_t bytes);

/* Waits while *still is what it is now, for `ns` at the most, and no longer than until meter_open. */
void meter_hold(struct meter *m, const _Atomic int *still, uint64_t ns);

#endif
