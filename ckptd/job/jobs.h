/* Jobs: those of this node, and what they leave or share. */
#ifndef CKPTD_JOB_JOBS_H
#define CKPTD_JOB_JOBS_H

#include "base/list.h"
#include "job/job.h"

struct control;
struct peers;
struct prefault;
struct runtime;
struct spill;
struct storage;

struct jobs {
	struct runtime *runtime;
	struct storage *storage;
	struct peers *peers;
	struct control *control; /* control/control.h */
	struct list list;
	struct formers formers;     /* what jobs that have ended have left in memory, until they come again */
	struct prefault *prefaults; /* that wait until its ranks are at work */
	struct spill *spills;       /* what this node brings to storage before a world changes */
};

/* What they work with is the job's, too. */
static inline void jobs_lend(struct jobs *jobs, struct job *job)
{
	job->jobs = jobs;
	job->runtime = jobs->runtime;
	job->storage = jobs->storage;
	job->peers = jobs->peers;
	job->control = jobs->control;
}

#endif
