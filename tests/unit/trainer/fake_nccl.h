/*
 * NCCL for tests: communicators of one process whose ranks are threads, on host memory. Its "device" is the struct itself:
 * an operation is done when all ranks have posted the same one; when they post different ones none ever is, as with
 * the real one. And it can be told to misbehave.
 */
#ifndef CKPT_TESTS_FAKE_NCCL_H
#define CKPT_TESTS_FAKE_NCCL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "collective/nccl_comm.h"

enum { FAKE_NCCL_RANKS = 4 };

enum fake_nccl_fault {
	FAKE_NCCL_SOUND,
	FAKE_NCCL_NO_ID,
	FAKE_NCCL_INIT_REFUSED, /* no handle */
	FAKE_NCCL_INIT_NEVER,
	FAKE_NCCL_INIT_FAILS, /* after it was under way */
	FAKE_NCCL_OP_REFUSED,
	FAKE_NCCL_NEVER_TAKEN, /* the call stays in progress */
	FAKE_NCCL_NEVER_DONE,  /* the kernel does not end */
	FAKE_NCCL_ASYNC_ERROR, /* while it runs */
	FAKE_NCCL_CONTEXT_LOST,
};

struct fake_nccl_rank {
	struct fake_nccl *all;
	int rank;
	int looks; /* at an operation that is under way */
	int kind;  /* of what was posted; 0: nothing is under way */
	const float *send;
	float *receive;
	size_t count;
	bool made, aborted, busy_at_abort;
};

struct fake_nccl {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum fake_nccl_fault fault; /* of rank 0 */
	bool abort_hangs, release;  /* an abort returns only after release */
	struct timespec abort_takes;
	int aborts_ended, ids, world;
	size_t largest; /* count of all operations */
	struct nccl_id id;
	struct fake_nccl_rank rank[FAKE_NCCL_RANKS];
};

/* One at a time. */
const struct nccl_table *fake_nccl_start(struct fake_nccl *fake);
void fake_nccl_end(struct fake_nccl *fake);
/* The stream of a rank's device. */
struct nccl_stream fake_nccl_stream(struct fake_nccl *fake, int rank);
/* Lets the aborts that hang return and waits for as many. */
void fake_nccl_release(struct fake_nccl *fake, int aborts);

#endif
