/* Args: structs of a public header that begin with their size. */
#ifndef CKPT_BASE_ARGS_H
#define CKPT_BASE_ARGS_H

#include "base/err.h"

#include <stddef.h>

/* Copies an argument struct that begins with its size into dst (`known` bytes, the struct of this build). `oldest`: its size in the
 * first version. -EINVAL: smaller than that; -E2BIG: a newer caller set fields that this build does not know. */
int args_take(void *dst, size_t known, size_t oldest, const void *src, const char *what, struct err *err);
/* The other way: fills a struct of the caller, whose size is set and was checked by args_take, as far as both know it. */
void args_give(void *dst, const void *src, size_t known);

#endif
