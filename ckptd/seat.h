/* Seat: a job's place at its coordinator (coord.h): what the coordinator orders, done on this node. What the job reports stands where
 * it happens: member.c, rank.c, saves.c, recover.c. */
#ifndef CKPTD_SEAT_H
#define CKPTD_SEAT_H

#include "job.h"

/* Makes the coordinator of a job whose ranks are all on this node, and takes the only seat. epoch: never given out. 0 or -ENOMEM. */
int seat_take(struct job *job, uint32_t epoch);

#endif
