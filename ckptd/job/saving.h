/* Saving: what a job hands its saves (struct saved_job), and what it does when these tell it something. */
#ifndef CKPTD_JOB_SAVING_H
#define CKPTD_JOB_SAVING_H

struct job;

/* Anew when its world has changed (saves_init). */
void job_init_saves(struct job *job);

#endif
