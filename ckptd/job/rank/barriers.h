/* Barriers: the three barriers of a job (register, join, restore), and the arenas that come out of the first. */
#ifndef CKPTD_JOB_BARRIERS_H
#define CKPTD_JOB_BARRIERS_H

#include "job/job.h"

/* The table of a process that no longer takes part. */
void member_forget_table(struct rank *rank);
/* Tells ranks and launcher the epoch, and the launcher which ranks have no process. elsewhere: as in struct wire_epoch. */
void member_tell_epoch(struct job *job, const char *reason, bool elsewhere);
/* The coordinator has said which epoch it is: those that wait to enter say so (again). */
void member_epoch_known(struct job *job);
/* The coordinator refuses this node: those that wait to enter are told; or wait on, where it is only too early (-EAGAIN). */
void member_turn_away(struct job *job, int rc, const char *text);
/* Answers a waiting request with an error. */
void member_refuse(struct rank *rank, struct waiting *waiting, int rc, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* All ranks of the job have entered the epoch. */
void member_joined(struct job *job, const struct wire_joined *joined);
/* Barriers whose deadline has passed are answered with who is missing. */
void member_expire(struct job *job, uint64_t now);

/* Takes what the rank registers, in place of its last table (job/rank/arenas.c). It is counted towards the memory limit
 * (-ENOMEM says what it needs), and checked. It is decoded unless the rank's arena was made for the same table. */
int job_take_table(struct rank *rank, const void *data, size_t len, struct err *err);
/* The arenas of all ranks (job/rank/arenas.c): those that fit the tables are kept, others are made. */
int job_make_arenas(struct job *job, struct err *err);
/* Whether an arena that comes back fits the limits of the job and the node. -ENOMEM, with the arithmetic. */
int job_check_arena(const struct job *job, uint64_t size, struct err *err);
/* A launcher that came late holds the arenas, too. */
void job_hold_all(struct job *job);

#endif
