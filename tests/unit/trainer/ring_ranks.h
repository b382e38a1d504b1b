/*
 * Ranks of a ring as threads, for tests. Bodies run in threads and must not use Criterion's assertions: they
 * return a number that the test then looks at.
 */
#ifndef CKPT_TESTS_RING_RANKS_H
#define CKPT_TESTS_RING_RANKS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "collective/ring.h"

enum { MAX_RANKS = 5 };

struct ranks;

struct rank {
	struct ranks *all;
	struct ring *ring;
	pthread_t thread;
	int rank, connected; /* connected: what ring_connect() returned */
	int result;          /* what the body returned */
	int64_t took_ns;     /* the body's time */
};

struct ranks {
	int world, cancel_fd;
	uint64_t epoch[MAX_RANKS]; /* 1 unless the test changes it before ranks_start() */
	int64_t connect_ms;        /* deadline of ring_connect(), 20000 */
	_Atomic int inside;        /* ranks that have connected and begun their body */
	int (*body)(struct rank *rank);
	void *context; /* the test's own */
	const char *addresses[MAX_RANKS];
	struct rank rank[MAX_RANKS];
};

/* Listens for all ranks. Fails the test on an error. */
void ranks_listen(struct ranks *ranks, int world);

/* Starts one thread per rank below `count` (usually the world): connects, then runs the body if that worked. */
void ranks_start(struct ranks *ranks, int count, int (*body)(struct rank *rank));

/* Waits until that many ranks have begun their body. */
void ranks_inside(struct ranks *ranks, int count);

/* Waits for the threads that were started. */
void ranks_join(struct ranks *ranks, int count);

/* Frees the rings. */
void ranks_free(struct ranks *ranks);

/* The four above in a row; returns with every body's result in rank[].result. */
void ranks_run(struct ranks *ranks, int world, int (*body)(struct rank *rank));

#endif
