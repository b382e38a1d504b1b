/* What the commands share that remove something, or keep it from being removed. */
#ifndef CKPT_CLI_REMOVAL_H
#define CKPT_CLI_REMOVAL_H

#include "frame/output.h"
#include "frame/target.h"

/* Opens the repository and takes the lock of all who remove checkpoints, so that nothing goes while it is looked at. Waits a few
 * seconds: EXIT_LOCKED. Closed with removal_unlock. */
int removal_lock(struct cli *cli, int *lock);
void removal_unlock(struct cli *cli, int lock);
/* A time such as 90m or 7d; `absent` when it was not given. EXIT_USAGE. */
int removal_duration(const struct cli *cli, const char *option, uint64_t absent, uint64_t *ns);

#endif
