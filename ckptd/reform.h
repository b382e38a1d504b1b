/* Reform: a job of this node goes on with another world.
 *
 * The launcher of a job whose world may change says how many processes it has, and which ranks it does not replace (OFFER). When one is
 * lost for good, the crew (crew.h) gives the ranks that are left to the processes that are left:
 *
 *   SOUND ── a rank is not replaced ──► CLEARING: the others are here (again, should the daemon have restarted); what is newest in memory
 *                                       goes to storage (it cannot: the job ends) ── nothing is under way ──► SOUND
 *
 * Then the launcher is told who is which rank from now on (PLAN), the arenas of the old world are let go, the job takes its seat anew with
 * the new world in a new epoch, and each process learns its new place as soon as it registers or joins (MOVED). Processes that are sound
 * go on; none is started that need not be. */
#ifndef CKPTD_REFORM_H
#define CKPTD_REFORM_H

#include "base/err.h"
#include "crew.h"
#include "format/wire.h"

struct daemon;
struct registration;
struct job;
struct rank;

struct reform {
	struct crew crew;
	bool offered;         /* its launcher lets the world change; else all else is unused */
	uint64_t clearing_ns; /* since when a rank is lost for good; 0: none is */
	bool flushed;         /* what is newest in memory was sent to storage */
	uint32_t seq;         /* of the last OFFER: what cannot be done is its answer */
	uint64_t seat_ns;     /* not before: the job takes its seat in the new world; 0: it has one */
};

/* From the launcher. -EINVAL: not what a launcher of this job can offer. */
int reform_offer(struct job *job, uint32_t seq, const struct wire_offer *offer, struct err *err);
/* Goes on when it can; every tick. */
void reform_tick(struct job *job);
void reform_free(struct reform *reform);

/* Answers a request of a process that does not know its place yet. False: it does, or so its table says (NULL: it brings none). */
bool reform_tell(struct rank *rank, uint32_t seq, const struct registration *table);
/* A process says HELLO that the launcher has named as another rank: the place that it has, in place of the one that it claims. */
void reform_place(struct daemon *daemon, struct wire_hello *hello, int pid);

#endif
