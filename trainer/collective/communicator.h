/*
 * The communicator: this rank among the others in one epoch. It joins, is connected to the others, and takes part in
 * collectives that are noted in the flight record.
 *
 * Every function returns 0 or one of these. -ESTALE when the epoch is over as far as this rank can see (a neighbour is
 * lost or late, or the news came): leave the communicator and join again. -ENOTRECOVERABLE when this process cannot go on
 * with its device. Or another -errno that joining again would not mend. In all cases communicator.why says what happened.
 */
#ifndef CKPT_TRAINER_COMMUNICATOR_H
#define CKPT_TRAINER_COMMUNICATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt.h"
#include "collective/cancel.h"
#include "collective/collective.h"

enum { COMMUNICATOR_WHY_SIZE = 512 };

/* The collective that a rank entered last in an epoch. */
struct communicator_place {
	uint32_t epoch; /* 0: it has entered none */
	int32_t rank;
	uint64_t sequence, bytes;
	uint8_t mismatch; /* it failed because a neighbour was in another one */
	uint8_t dtype;    /* ckpt_dtype of its elements; 0: it has none */
	char op[14];
};

struct communicator {
	/* borrowed, set by the owner before the first join */
	ckpt *session;
	struct cancel *cancel;
	const struct collective_way *way;
	const char *address;
	int64_t timeout_ms; /* of a collective */
	/* tells that it is NCCL that this rank waits for, which neither hangs nor trains */
	struct errand_waiting waiting;

	struct collective *collective; /* NULL: not joined */
	const ckpt_view *view;         /* of the epoch that was joined last, until the next join */
	uint32_t epoch;                /* joined last */
	int rank, world;
	int64_t complete_ns; /* when the last collective was complete: all ranks were alive shortly before; 0: none */
	bool missing;        /* the last join ran out of time: ranks, or the daemon, are missing */
	struct communicator_place place;
	bool mismatch; /* the last collective failed because a neighbour was in another one: nobody is lost */
	char why[COMMUNICATOR_WHY_SIZE];
};

/* Joins the job's current epoch. Waits so long for the others; when it says `missing` it may be called again. */
int communicator_join(struct communicator *communicator, int wait_ms);
/* Connects the collectives of those that joined. */
int communicator_connect(struct communicator *communicator);
/* Ends the collectives, so that the others do not wait for this rank. Also when not joined. 0 or -ENOTRECOVERABLE. */
int communicator_leave(struct communicator *communicator);

/* As their counterparts in collective.h. */
int communicator_reduce_scatter(struct communicator *communicator, float *data, size_t count);
int communicator_all_gather(struct communicator *communicator, float *data, size_t count);
int communicator_sum(struct communicator *communicator, double *values, size_t count);
int communicator_gather(struct communicator *communicator, void *all, size_t bytes);
int communicator_gather_shards(struct communicator *communicator, float *data, size_t count);
int communicator_barrier(struct communicator *communicator);

/* Notes an error of the library: -ESTALE and what a later join can mend become -ESTALE. `doing`: "join", "restore". */
int communicator_library_error(struct communicator *communicator, const char *doing, int rc);

#endif
