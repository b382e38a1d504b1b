#include "arena/numa_node.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NODES_MAX = 1024, BITS = 8 * sizeof(unsigned long) };

/* "0-3,8-11": whether all of the processors are among them, and whether any are. */
static void compare(const char *list, const cpu_set_t *processors, bool *all, bool *any)
{
	cpu_set_t here;
	CPU_ZERO(&here);
	for (char *end; *list >= '0' && *list <= '9'; list = *end == ',' ? end + 1 : end) {
		unsigned long from = strtoul(list, &end, 10), to = *end == '-' ? strtoul(end + 1, &end, 10) : from;
		for (unsigned long i = from; i <= to && i < CPU_SETSIZE; i++)
			CPU_SET(i, &here);
	}
	CPU_AND(&here, &here, processors);
	*any = CPU_COUNT(&here) > 0;
	*all = CPU_EQUAL(&here, processors);
}

/* false: there is no such node. */
static bool read_list(const char *root, int node, char *list, size_t size)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/node%d/cpulist", root, node);
	FILE *f = fopen(path, "re");
	if (!f)
		return false;
	size_t n = fread(list, 1, size - 1, f);
	list[n] = 0;
	fclose(f);
	return true;
}

int numa_node_of(const cpu_set_t *processors, const char *root)
{
	char list[8192];
	int found = -ENOENT, nodes = 0, missing = 0;
	if (!CPU_COUNT(processors))
		return -ENOENT;
	/* Numbers may be left out, but not many. */
	for (int node = 0; node < NODES_MAX && missing < 64; node++) {
		bool all, any;
		if (!read_list(root, node, list, sizeof(list))) {
			missing++;
			continue;
		}
		missing = 0;
		nodes++;
		compare(list, processors, &all, &any);
		if (all)
			found = node;
	}
	return nodes > 1 ? found : -ENOENT;
}

int numa_node_of_process(pid_t pid, const char *root)
{
	cpu_set_t processors;
	if (pid <= 0)
		return -ENOENT;
	return sched_getaffinity(pid, sizeof(processors), &processors) ? -errno : numa_node_of(&processors, root);
}

int numa_prefer(void *base, uint64_t size, int node)
{
	unsigned long nodes[NODES_MAX / BITS] = {0};
	if (node < 0 || node >= NODES_MAX)
		return -EINVAL;
	nodes[(size_t)node / BITS] = 1ul << (size_t)node % BITS;
	/* The kernel reads one bit less than it is told. */
	return syscall(SYS_mbind, base, size, MPOL_PREFERRED, nodes, NODES_MAX + 1ul, 0) ? -errno : 0;
}
