/* Confine: the control group of a user's worker, below that of the service, where systemd has delegated that
 * (Delegate=yes, version 2 of control groups). The kernel then holds the user to their memory, and shares processor and
 * disk fairly. Without a group, only what the worker says of itself is known. */
#ifndef CKPTD_SYSTEM_CONFINE_H
#define CKPTD_SYSTEM_CONFINE_H

#include "base/err.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct confine {
	char folder[PATH_MAX]; /* "": none was delegated */
};

/* Finds the group of this process below `tree` (/sys/fs/cgroup). Moves the process into a group of its own, so that
 * others can be made beside it. Switches the controllers on. Not delegated: 0, and no folder. */
int confine_open(struct confine *confine, const char *tree, struct err *err);
/* Makes the group of a user and moves this process into it. memory_max: bytes. Nothing without a folder. */
int confine_enter(const struct confine *confine, uid_t uid, uint64_t memory_max, struct err *err);
/* Its processes are gone. */
void confine_remove(const struct confine *confine, uid_t uid);

#endif
