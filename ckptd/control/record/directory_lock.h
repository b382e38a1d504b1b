/* Directory lock: who may make, rename and remove directories of a job, where several daemons share a store. It is the
 * daemon that coordinates the job, or one that only has litter to sweep there. A lock on a file in the job's directory;
 * it ends with the process that has it. A daemon in no cluster has the store for itself (REPO_LOCK), and needs none.
 * Where a registry says who coordinates a job that is spread over nodes (control/election/election.h), that daemon needs none
 * either, and nobody else removes anything of the job. */
#ifndef CKPTD_CONTROL_DIRECTORY_LOCK_H
#define CKPTD_CONTROL_DIRECTORY_LOCK_H

#include "base/err.h"

#include <stdbool.h>

struct control;

#define DIRECTORY_LOCK_FILE ".owner"

enum { DIRECTORY_LOCK_NONE = -1 };

/* On 0 *lock is what directory_lock_give takes. -EBUSY: another daemon has it, and is named as far as can be. */
int directory_lock_take(struct control *control, const char *job, int *directory_lock, struct err *err);
/* Whether something of the job ("": of the whole store) may be removed by this daemon; *lock is given back when it has
 * been. */
bool directory_lock_to_remove(struct control *control, const char *job, int *directory_lock);
/* Whether that is still so: where the registry says who coordinates, another daemon may have been elected since. Asked
 * before each change. */
bool directory_lock_stands(const struct control *control, const char *job);
void directory_lock_give(struct control *control, int *directory_lock);

#endif
