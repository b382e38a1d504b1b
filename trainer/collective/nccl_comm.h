/*
 * A communicator of NCCL whose calls never hang. It is made without blocking, and every wait, also that for the device,
 * has a deadline, watches the cancel descriptor and asks for asynchronous errors meanwhile.
 *
 * - 0, -ETIMEDOUT, -ECANCELED, -EIO (NCCL failed, here or at another rank: its sentence is in nccl_comm_error()), or
 *   -ENOTRECOVERABLE (the device's context is lost, or what was put on it cannot be ended: only another process helps).
 * - The first error is final, and the data of a failed collective is undefined: what an abort leaves is garbage. Free the
 *   communicator and make another with another identifier, in another epoch.
 * - All ranks call the same collectives in the same order with the same counts. NCCL does not notice when they do not: it waits
 *   until the deadline; the flight records tell who is where.
 *
 * Sums are in NCCL's order: the same bits on all ranks, but not in another world or with another version of NCCL.
 */
#ifndef CKPT_TRAINER_NCCL_COMM_H
#define CKPT_TRAINER_NCCL_COMM_H

#include <stdint.h>

#include "collective/nccl_table.h"
#include "common/errand.h"

/* The device's stream on which the data is made and used. Borrowed. */
struct nccl_stream {
	void *stream;             /* a cudaStream_t */
	int (*query)(void *self); /* 1: all that was put on it is done; 0: not yet; -errno: the context is lost */
	void *self;
};

struct nccl_group {
	int rank, world;
	struct nccl_id id;             /* made by rank 0 for this group alone */
	int cancel_fd;                 /* cancels when readable; never read here, borrowed; -1: none */
	struct errand_waiting waiting; /* called while NCCL connects, and while it aborts; NULL: nothing */
};

struct nccl_comm;

/* 0 and a communicator that is not connected, or -ENOMEM. The table is borrowed for ever: an abort that hangs uses it. */
int nccl_comm_create(const struct nccl_table *table, const struct nccl_stream *stream, struct nccl_comm **comm);
/* To be called once. */
int nccl_comm_connect(struct nccl_comm *comm, const struct nccl_group *group, int64_t deadline);

/*
 * As in ring.h, on memory of the device, and complete there when they return. data has room for world * shard_range(count,
 * 0, world).end elements: NCCL's shards are all alike.
 */
int nccl_comm_reduce_scatter(struct nccl_comm *comm, float *data, size_t count, int64_t deadline);
int nccl_comm_all_gather(struct nccl_comm *comm, float *data, size_t count, int64_t deadline);

/* Why it failed, "" when it has not. */
const char *nccl_comm_error(const struct nccl_comm *comm);

/*
 * Aborts what is under way and frees the communicator; NULL is allowed. The abort runs in a thread of its own, as an errand. 0, or
 * -ENOTRECOVERABLE when it had not come to its end by the deadline: the device is not to be used by this process any more.
 */
int nccl_comm_free(struct nccl_comm *comm, int64_t deadline);

#endif
