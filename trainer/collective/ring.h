/*
 * A ring of ranks over TCP: collectives that never hang. Rank r sends to rank r + 1 and receives from rank r - 1.
 *
 * - Every call has a deadline (see deadline.h), and while it waits it watches the cancel descriptor as well: it
 *   returns 0, -ETIMEDOUT, -ECANCELED, -EPIPE (a neighbour has closed or died), -EPROTO (the neighbour is in
 *   another collective: the two are named in ring_error()) or another -errno of a socket.
 * - The first error is final: the ring closes its connections, so that its neighbours fail with -EPIPE instead of
 *   waiting for their deadlines, and every later call returns the same error. Then free it and build a new one
 *   with a new epoch. After an error the data of the failed collective is undefined. The rank that ring_error()
 *   names is the neighbour this rank waited for, which may itself have waited for another.
 * - Sums have a fixed order, which depends on the count and the world size only: all ranks get the same bits, in
 *   every run.
 * - Collectives must be called by all ranks in the same order with the same sizes. All work in place.
 *
 * A ring belongs to one thread at a time; the cancel descriptor may be signalled from any thread. Ranks must have
 * one byte order and float format; all that are supported do. The handshake guards against mistakes and stale
 * processes, not against attackers: the traffic is neither encrypted nor authenticated.
 */
#ifndef CKPT_TRAINER_RING_H
#define CKPT_TRAINER_RING_H

#include <stddef.h>
#include <stdint.h>

struct ring;

enum {
	RING_ADDRESS_SIZE = 128, /* with the NUL */
	RING_ERROR_SIZE = 256,
	RING_SMALL_BYTES = 4096, /* most that ring_gather() takes from one rank */
	RING_MAX_WORLD = 4096,
};

/*
 * Creates a ring that listens on an ephemeral port of `address`, an IPv4 or IPv6 literal that the other ranks can
 * reach (not a wildcard); NULL means 127.0.0.1. Returns 0 and a ring to be freed with ring_free(), -EINVAL for an
 * unusable address, -ENOMEM, or the -errno of a socket call.
 */
int ring_listen(const char *address, struct ring **ring);

/* Closes everything and frees the ring; NULL is allowed. */
void ring_free(struct ring *ring);

/*
 * The ring's address to be given to the other ranks: printable text without spaces, at most RING_ADDRESS_SIZE
 * bytes, owned by the ring. It names one listening ring: it dies with it and is never reused.
 */
const char *ring_address(const struct ring *ring);

/* Who takes part. The ring copies what it needs. */
struct ring_group {
	int rank, world;              /* 0 <= rank < world <= RING_MAX_WORLD */
	const char *const *addresses; /* [world], of all ranks in rank order; not read when world is 1 */
	uint64_t epoch;               /* the same on all ranks; a peer with another one is refused */
	int cancel_fd;                /* cancels when readable (an eventfd; never read here), borrowed; -1: none */
};

/*
 * Connects the ring; to be called once. Besides the errors above: -ECONNREFUSED when the next rank's address is no
 * longer listening, -ESTALE when it refused us because it is at another epoch, -EINVAL for a bad group or address.
 * Strangers and stale peers that connect to us are refused and do no harm.
 */
int ring_connect(struct ring *ring, const struct ring_group *group, int64_t deadline);

/* Why the ring failed, "" when it has not; owned by the ring. */
const char *ring_error(const struct ring *ring);

/* Collectives begun so far: the sequence number of the latest one. */
uint64_t ring_sequence(const struct ring *ring);

/* data[count] becomes the elementwise sum over all ranks. */
int ring_all_reduce_sum(struct ring *ring, float *data, size_t count, int64_t deadline);

/*
 * The rank's shard of data[count], which is shard_range(count, rank, world), becomes the sum over all ranks; the
 * rest becomes undefined.
 */
int ring_reduce_scatter_sum(struct ring *ring, float *data, size_t count, int64_t deadline);

/* Each rank's shard of data[count] is copied to all the others. */
int ring_all_gather(struct ring *ring, float *data, size_t count, int64_t deadline);

/*
 * all[world * bytes] receives every rank's bytes, in rank order, of which the caller has put its own in place;
 * bytes is at most RING_SMALL_BYTES, else -EINVAL (and the ring stays usable).
 */
int ring_gather(struct ring *ring, void *all, size_t bytes, int64_t deadline);

enum ring_op {
	RING_SUM, /* wraps around */
	RING_MIN,
	RING_MAX,
};

/* Elementwise over all ranks; 8 * count is at most RING_SMALL_BYTES, else -EINVAL. */
int ring_all_reduce_int64(struct ring *ring, int64_t *values, size_t count, enum ring_op op, int64_t deadline);

/* The sum in rank order; limits as above. */
int ring_all_reduce_double(struct ring *ring, double *values, size_t count, int64_t deadline);

/* Of a ckpt_dtype that collectives here have, for messages: " of F32"; else "". */
const char *ring_type_text(unsigned int dtype);

/* Returns when every rank has called it. */
int ring_barrier(struct ring *ring, int64_t deadline);

#endif
