/* What a process of a campaign finds in its environment: nothing of another job. */
#ifndef CKPT_CLI_REMOTE_ENVIRONMENT_H
#define CKPT_CLI_REMOTE_ENVIRONMENT_H

#include <limits.h>

enum { ENVIRONMENT_TEXT_MAX = PATH_MAX + 32 };

/* This environment without variables of ckpt, but for the device and the configuration, and with these, "NAME=VALUE",
 * which are the caller's. free() it. NULL: no memory. */
char **environment_with(char *const *set, int n);

#endif
