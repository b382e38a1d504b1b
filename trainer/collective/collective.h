/*
 * The collectives of a rank, over what there is: a TCP ring of hosts for everything. If the data is on GPUs, it is NCCL
 * for the big vectors and the ring for what is small and on the host. One interface, one set of promises, those of
 * ring.h: no call hangs, the first error is final, all ranks call the same in the same order.
 *
 * Of each epoch there is a new one. Its address goes to the other ranks through ckpt_join(): that of the ring, and
 * whether NCCL is used. The identifier of the new communicator comes from rank 0 over the ring, when that stands. Each
 * one that NCCL makes holds a thread and a socket until all ranks have used it, so that none is made for ranks that may
 * not come.
 */
#ifndef CKPT_TRAINER_COLLECTIVE_H
#define CKPT_TRAINER_COLLECTIVE_H

#include <stddef.h>
#include <stdint.h>

#include "ckpt.h"
#include "collective/nccl_comm.h"
#include "collective/ring.h"

struct collective;

/* How big vectors travel. */
struct collective_way {
	const struct nccl_table *nccl; /* NULL: over the ring, on host memory */
	struct nccl_stream stream;     /* with nccl */
};

/* Listens on `host` as the rank that this process is about to be. 0 and *collective, or as ring_listen(). */
int collective_listen(const struct collective_way *way, const char *host, int rank, struct collective **collective);
/* Writes the address that other ranks need, and returns its length. */
size_t collective_address(const struct collective *collective, uint8_t address[CKPT_ADDRESS_MAX]);

struct collective_group {
	int rank, world;
	const uint8_t *addresses;    /* [world * CKPT_ADDRESS_MAX] */
	const uint32_t *address_len; /* [world] */
	uint64_t epoch;
	int cancel_fd;
	struct errand_waiting waiting; /* as in nccl_comm.h */
};

/* To be called once. Errors are those of ring_connect() and nccl_comm_connect(); -EINVAL where some ranks have GPUs, and
 * others not. */
int collective_connect(struct collective *collective, const struct collective_group *group, int64_t deadline);

/* Why it failed. */
const char *collective_error(const struct collective *collective);
/* Collectives begun so far. */
uint64_t collective_sequence(const struct collective *collective);

/* As in ring.h; data is where the way wants it, with room as nccl_comm.h says. */
int collective_reduce_scatter(struct collective *collective, float *data, size_t count, int64_t deadline);
int collective_all_gather(struct collective *collective, float *data, size_t count, int64_t deadline);
/* On host memory in any case. */
int collective_sum(struct collective *collective, double *values, size_t count, int64_t deadline);
int collective_gather(struct collective *collective, void *all, size_t bytes, int64_t deadline);
int collective_gather_shards(struct collective *collective, float *data, size_t count, int64_t deadline);
int collective_barrier(struct collective *collective, int64_t deadline);

/* Frees it in any case; NULL is allowed. 0, or -ENOTRECOVERABLE: see nccl_comm_free(). */
int collective_free(struct collective *collective, int64_t deadline);

#endif
