/* What of a job's checkpoints is in use, and is not removed. */
#ifndef CKPTD_UPKEEP_GC_USED_H
#define CKPTD_UPKEEP_GC_USED_H

#include "upkeep/gc_plan.h"

struct job;

/* Written, read back, or waiting for that; and what the ranks went on from. */
bool gc_in_use(const struct job *job, struct step_id id);
/* All of that, for the plan; at most GC_USED_MAX. */
void gc_list_used(struct gc_plan *plan, const struct job *job);

#endif
