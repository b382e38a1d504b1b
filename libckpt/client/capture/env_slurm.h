/* What Slurm tells a task of where the others are. */
#ifndef CKPT_ENV_SLURM_H
#define CKPT_ENV_SLURM_H

#include "base/err.h"

#include <stdint.h>

/* How many tasks of this step run on this node: the place SLURM_NODEID of SLURM_STEP_TASKS_PER_NODE, as "4(x2),3" (two nodes with four
 * tasks, one with three). *name is that variable. NULL: it is not set, or the step has not `world` tasks, so that the ranks are others than
 * the tasks; *out is untouched. -EINVAL. */
int env_slurm_local(uint32_t world, uint32_t *out, const char **name, struct err *err);

#endif
