/*
 * The crew: this rank among the others in one epoch. It joins, is connected to the others, and takes part in collectives
 * that are noted in the flight record.
 *
 * Every function returns 0, -ESTALE when the epoch is over as far as this rank can see (a neighbour is lost or late, or
 * the news came): leave the crew and join again; -ENOTRECOVERABLE when this process cannot go on with its device; or another
 * -errno that joining again would not mend. In all cases crew.why says what happened.
 */
#ifndef CKPT_TRAINER_CREW_H
#define CKPT_TRAINER_CREW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cancel.h"
#include "ckpt.h"
#include "collective.h"

enum { CREW_WHY_SIZE = 512 };

struct crew {
	/* borrowed, set by the owner before the first join */
	ckpt *session;
	struct cancel *cancel;
	const struct collective_way *way;
	const char *address;
	int64_t timeout_ms; /* of a collective */

	struct collective *collective; /* NULL: not joined */
	const ckpt_view *view;         /* of the epoch that was joined last, until the next join */
	uint32_t epoch;                /* joined last */
	int rank, world;
	int64_t complete_ns; /* when the last collective was complete: all ranks were alive shortly before; 0: none */
	bool missing;        /* the last join ran out of time: ranks, or the daemon, are missing */
	bool mismatch;       /* the last collective failed because a neighbour was in another one: nobody is lost */
	char why[CREW_WHY_SIZE];
};

/* Joins the job's current epoch. Waits so long for the others; when it says `missing` it may be called again. */
int crew_join(struct crew *crew, int wait_ms);
/* Connects the collectives of those that joined. */
int crew_connect(struct crew *crew);
/* Ends the collectives, so that the others do not wait for this rank. Also when not joined. 0 or -ENOTRECOVERABLE. */
int crew_leave(struct crew *crew);

/* As their counterparts in collective.h. */
int crew_reduce_scatter(struct crew *crew, float *data, size_t count);
int crew_all_gather(struct crew *crew, float *data, size_t count);
int crew_sum(struct crew *crew, double *values, size_t count);
int crew_gather(struct crew *crew, void *all, size_t bytes);
int crew_gather_shards(struct crew *crew, float *data, size_t count);
int crew_barrier(struct crew *crew);

/* Notes an error of the library: -ESTALE and what a later join can mend become -ESTALE. `doing`: "join", "restore". */
int crew_library_error(struct crew *crew, const char *doing, int rc);

#endif
