/* Rank: one rank of a job on this node, and its process: how it is watched, when it counts as lost, whether it hangs. */
#ifndef CKPTD_JOB_RANK_H
#define CKPTD_JOB_RANK_H

#include "job/job.h"

/* pidfd taken over. Without one (very old kernels) the end of the connection tells of the death. */
void rank_watch(struct rank *rank, pid_t pid, int pidfd);
/* Its process is gone, or it is given up. */
void rank_lost(struct rank *rank, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Those that have been away for too long are lost; every tick. */
void rank_watch_missing(struct job *job, uint64_t now);
/* Notes its pace, and says once that its heartbeat has stopped; every tick. */
void rank_watch_beat(struct rank *rank, uint64_t now);
/* `to` takes the process of `from` and its connection, as somebody who has only just said HELLO. */
void rank_carry(struct rank *to, struct rank *from);
/* With what it holds; not the rank itself, which belongs to the job. */
void rank_end(struct rank *rank);

#endif
