/* The memory that the control groups of this process leave it: a container's ceiling is there and nowhere else. And what became of it. */
#ifndef CKPT_BASE_CGROUP_H
#define CKPT_BASE_CGROUP_H

#include <stdint.h>

/* The lowest limit, in bytes, of the group that the process is in and of all above it, as far as they can be seen; UINT64_MAX: none.
 * Version 2 (memory.max) and version 1 (memory.limit_in_bytes) of control groups. Reads files, opens nothing for long. */
uint64_t cgroup_memory_limit(void);

/* The same for a list of groups in the form of /proc/self/cgroup and a tree like /sys/fs/cgroup. */
uint64_t cgroup_memory_limit_of(const char *list_path, const char *tree);

/* Processes that the kernel has killed for lack of memory in the group that this process is in; version 2: and in all
 * below it. So far: it only grows. 0 also where it cannot be seen. */
uint64_t cgroup_memory_kills(void);
uint64_t cgroup_memory_kills_of(const char *list_path, const char *tree);

#endif
