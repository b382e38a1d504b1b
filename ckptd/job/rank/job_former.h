/* What a job does with what former ranks have left (restore/former.h). It has a list of them, and adds what its own ranks
 * leave. It gives arenas back to ranks that fit them, and lets go what is not needed any more. */
#ifndef CKPTD_JOB_JOB_FORMER_H
#define CKPTD_JOB_JOB_FORMER_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct former;
struct job;

/* What stands in the job's arenas is known, also in those that have come back without any process. -EAGAIN: not yet. */
int former_ready(struct job *job, struct err *err);
/* Other tables than the arenas' have come, and what makes way for them is not known yet. */
bool former_checks(struct job *job);
/* The ranks have said goodbye, but have neither gone on from what is in their arenas only nor saved anything since they
 * came, as after a restore that was refused. Their goodbye ends nothing, and others may come for it until `linger` is
 * over. tell: log it. */
bool former_waits(struct job *job, bool tell);
/* The newest of them is on storage, or there is none. -EAGAIN: it is being written. Else it cannot be, and why. */
int former_store(struct job *job, struct err *err);
/* Out of the job's arenas, which it may let go then, and what it had itself: a list. *out NULL: nothing is in memory. */
int former_take(struct job *job, struct former **out, struct err *err);
/* The job has all of the list from now on. */
void former_give(struct job *job, struct former *list);
/* Ranks that register the tables of these arenas, and have nothing in those that they were given, get them back. */
void former_return(struct job *job);
/* All of them. Does nothing where there is none. */
void former_let_go(struct job *job, const char *why);
/* Those that are on storage, too. False: there is none. */
bool former_let_go_stored(struct job *job, const char *why);
/* Lets go what is not needed any more. */
void former_tick(struct job *job, uint64_t now);

/* Bytes of the job's own arenas and of these, where both are kept. */
uint64_t former_bytes(const struct job *job);

#endif
