/* Template: paths that differ from user to user: %u the name, %U the number, %h the home, %% a percent sign. */
#ifndef CKPTD_SYSTEM_TEMPLATE_H
#define CKPTD_SYSTEM_TEMPLATE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct template_user {
	const char *name, *home;
	uid_t uid;
};

/* Whether two users get two paths. -EINVAL: it is none at all: a % with another letter. */
int template_check(const char *text, bool *per_user, struct err *err);
/* -EINVAL, -ENAMETOOLONG. A name that would leave its place in a path is refused. */
int template_expand(const char *text, const struct template_user *user, char *dst, size_t size, struct err *err);

#endif
