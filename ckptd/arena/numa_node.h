/* Which part of a machine with several (NUMA nodes) memory comes from. A GPU reads and writes the memory of the other socket more slowly; a
 * launcher puts the rank on processors near its GPU. */
#ifndef CKPTD_ARENA_NUMA_NODE_H
#define CKPTD_ARENA_NUMA_NODE_H

#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NUMA_NODES "/sys/devices/system/node"

/* The node that has all of these processors, if there is another one, too. -ENOENT: none, or they are of several. root: NUMA_NODES. */
int numa_node_of(const cpu_set_t *processors, const char *root);
/* That of the processors that the process may run on. -ENOENT, or why they are not known. */
int numa_node_of_process(pid_t pid, const char *root);
/* Pages of this shared memory, whoever touches them first, come from there while it has some. 0 or -errno: the kernel has
 * no such thing, or a container forbids it. */
int numa_prefer(void *base, uint64_t size, int node);

#endif
