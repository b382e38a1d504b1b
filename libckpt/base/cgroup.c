#include "base/cgroup.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Version 1 says "no limit" with the largest multiple of a page. */
#define NO_LIMIT (1ull << 62)

static uint64_t read_limit(const char *folder, const char *file)
{
	char path[PATH_MAX], text[32] = "";
	if (snprintf(path, sizeof(path), "%s/%s", folder, file) >= (int)sizeof(path))
		return UINT64_MAX;
	FILE *f = fopen(path, "re");
	if (!f)
		return UINT64_MAX;
	size_t n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	char *end;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10); /* "max" is no number */
	return !n || end == text || errno || value >= NO_LIMIT ? UINT64_MAX : value;
}

/* The lowest from <tree><group> up to <tree>. In a container the group may be named as the host sees it, and be missing here: what is
 * mounted is then the container's own. */
static uint64_t lowest(const char *tree, const char *group, const char *file)
{
	char folder[PATH_MAX];
	size_t root = strlen(tree);
	uint64_t limit = UINT64_MAX;
	if (snprintf(folder, sizeof(folder), "%s%s", tree, group) >= (int)sizeof(folder))
		return read_limit(tree, file);
	for (;;) {
		uint64_t here = read_limit(folder, file);
		limit = here < limit ? here : limit;
		char *slash = strrchr(folder, '/');
		if (!slash || (size_t)(slash - folder) < root)
			return limit;
		*slash = '\0';
	}
}

static uint64_t min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* "4:memory:/group" of version 1, "0::/group" of version 2 (alone, or beside version 1 in a folder of its own). */
static uint64_t of_line(char *line, const char *tree)
{
	char sub[PATH_MAX];
	char *controllers = strchr(line, ':');
	char *group = controllers ? strchr(controllers + 1, ':') : NULL;
	if (!group)
		return UINT64_MAX;
	*controllers++ = '\0';
	*group++ = '\0';
	group[strcspn(group, "\n")] = '\0';
	if (!*controllers) {
		snprintf(sub, sizeof(sub), "%s/unified", tree);
		return min(lowest(tree, group, "memory.max"), lowest(sub, group, "memory.max"));
	}
	for (char *save, *name = strtok_r(controllers, ",", &save); name; name = strtok_r(NULL, ",", &save))
		if (!strcmp(name, "memory")) {
			snprintf(sub, sizeof(sub), "%s/memory", tree);
			return lowest(sub, group, "memory.limit_in_bytes");
		}
	return UINT64_MAX;
}

uint64_t cgroup_memory_limit_of(const char *list_path, const char *tree)
{
	char line[PATH_MAX];
	uint64_t limit = UINT64_MAX;
	FILE *list = fopen(list_path, "re");
	if (!list)
		return limit;
	while (fgets(line, sizeof(line), list))
		limit = min(limit, of_line(line, tree));
	fclose(list);
	return limit;
}

uint64_t cgroup_memory_limit(void)
{
	return cgroup_memory_limit_of("/proc/self/cgroup", "/sys/fs/cgroup");
}
