/* Restoring: what a job hands its restore (struct restored_job), and what it does when this has come to an end or needs another node. */
#ifndef CKPTD_JOB_RESTORING_H
#define CKPTD_JOB_RESTORING_H

struct job;

void job_init_restore(struct job *job);

#endif
