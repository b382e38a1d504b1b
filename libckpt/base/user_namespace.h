/* User namespace: whether the number of a user tells who that is. Users whom the namespace of this process does not know
 * all have one number there, /proc/sys/kernel/overflowuid, 65534 as a rule (user_namespaces(7), "Unmapped user and group
 * IDs"). Whoever truly has that number in the namespace cannot be told from them. */
#ifndef CKPT_BASE_USER_NAMESPACE_H
#define CKPT_BASE_USER_NAMESPACE_H

#include <stdbool.h>
#include <sys/types.h>

enum { USER_OVERFLOW_DEFAULT = 65534 };

/* False: it stands for many. */
bool user_is_one(uid_t uid);

#endif
