/* Failpoints: named places where a test build can make the code fail. Compiled out unless CKPT_FAILPOINTS is defined.
 *
 * CKPT_FAILPOINTS="disk.write=error:ENOSPC@3,commit.name=kill" in the environment arms them; @N fires at the N-th hit
 * only (from 1), without it at every hit. Actions: error:ERRNO, short:BYTES, delay:MILLISECONDS, kill (SIGKILL to itself).
 * `short` fires only where there is more than BYTES to cut.
 * CKPT_FAILPOINT_LOG=FILE: each hit of an armed failpoint and each firing is appended as a line "hit NAME" / "fired NAME
 * ACTION", so that a test counts what was injected and what fired. A name outside the table in failpoint.c is refused at
 * start with exit 2: no test can arm a place that does not exist. */
#ifndef CKPT_BASE_FAILPOINT_H
#define CKPT_BASE_FAILPOINT_H

#include <stddef.h>

#ifdef CKPT_FAILPOINTS
/* 0: go on. Negative: behave as if the operation failed with this -errno. `size` (may be NULL) is cut by `short`. */
int failpoint(const char *name, size_t *size);
/* The table of names, NULL-terminated, for `--list-failpoints` of test builds. */
const char *const *failpoint_names(void);
/* Arms what the text says, in place of all that was armed before; hits count from 0 again. NULL or "" disarms. For tests,
 * while no other thread may hit a failpoint. -EINVAL, -ENOENT or -E2BIG with the reason, and nothing is armed. */
struct err;
int failpoint_arm(const char *spec, struct err *err);
#else
static inline int failpoint(const char *name, size_t *size)
{
	(void)name;
	(void)size;
	return 0;
}
#endif

#endif
