/* Tenure: who may make, rename and remove directories of a job, where several daemons share a store: whoever coordinates the job, or has
 * nothing in it but litter to sweep. A lock on a file in the job's directory; it ends with the process that has it. A daemon in no cluster
 * has the store for itself (REPO_LOCK), and needs none. */
#ifndef CKPTD_CHECKPOINT_DIRECTORY_LOCK_H
#define CKPTD_CHECKPOINT_DIRECTORY_LOCK_H

#include "base/err.h"

#include <stdbool.h>

struct daemon;

#define TENURE_FILE ".owner"

enum { TENURE_NONE = -1 };

/* On 0 *tenure is what tenure_give takes. -EBUSY: another daemon has it, and is named as far as can be. */
int tenure_take(struct daemon *daemon, const char *job, int *tenure, struct err *err);
/* Whether something of the job ("": of the whole store) may be removed by this daemon; *tenure is given back when it has been. */
bool tenure_to_remove(struct daemon *daemon, const char *job, int *tenure);
void tenure_give(struct daemon *daemon, int *tenure);

#endif
