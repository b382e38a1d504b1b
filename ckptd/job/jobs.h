/* Jobs: those of this node, and what they leave or share. */
#ifndef CKPTD_JOB_JOBS_H
#define CKPTD_JOB_JOBS_H

#include "base/list.h"

struct former;
struct prefault;
struct spill;

struct jobs {
	struct list list;
	struct former *formers;     /* what jobs that have ended have left in memory, until they come again */
	struct prefault *prefaults; /* that wait until its ranks are at work */
	struct spill *spills;       /* what this node brings to storage before a world changes */
};

#endif
