#include "base/cgroup.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Version 1 says "no limit" with the largest multiple of a page. */
#define NO_LIMIT (1ull << 62)
#define LIST "/proc/self/cgroup"
#define TREE "/sys/fs/cgroup"

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

struct group {
	const char *tree, *name;
	bool old; /* of version 1 */
};

typedef uint64_t look_fn(const struct group *group, uint64_t so_far);

/* "4:memory:/group" of version 1, "0::/group" of version 2 (alone, or beside version 1 in a folder of its own). */
static uint64_t look_at_line(char *line, const char *tree, look_fn *look, uint64_t so_far)
{
	char sub[PATH_MAX];
	char *controllers = strchr(line, ':');
	char *name = controllers ? strchr(controllers + 1, ':') : NULL;
	if (!name)
		return so_far;
	*controllers++ = '\0';
	*name++ = '\0';
	name[strcspn(name, "\n")] = '\0';
	if (!*controllers) {
		snprintf(sub, sizeof(sub), "%s/unified", tree);
		so_far = look(&(struct group){tree, name, false}, so_far);
		return look(&(struct group){sub, name, false}, so_far);
	}
	snprintf(sub, sizeof(sub), "%s/memory", tree);
	for (char *save, *one = strtok_r(controllers, ",", &save); one; one = strtok_r(NULL, ",", &save))
		if (!strcmp(one, "memory"))
			return look(&(struct group){sub, name, true}, so_far);
	return so_far;
}

static uint64_t look_at_all(const char *list_path, const char *tree, look_fn *look, uint64_t so_far)
{
	char line[PATH_MAX];
	FILE *list = fopen(list_path, "re");
	if (!list)
		return so_far;
	while (fgets(line, sizeof(line), list))
		so_far = look_at_line(line, tree, look, so_far);
	fclose(list);
	return so_far;
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static uint64_t look_for_limit(const struct group *group, uint64_t so_far)
{
	uint64_t limit = lowest(group->tree, group->name, group->old ? "memory.limit_in_bytes" : "memory.max");
	return limit < so_far ? limit : so_far;
}

uint64_t cgroup_memory_limit_of(const char *list_path, const char *tree)
{
	return look_at_all(list_path, tree, look_for_limit, UINT64_MAX);
}

uint64_t cgroup_memory_limit(void)
{
	return cgroup_memory_limit_of(LIST, TREE);
}

/* ---- who was killed ---------------------------------------------------------------------------------------------- */

/* -1: there is no such file. */
static long long read_kills(const char *tree, const char *name, const char *file)
{
	char path[PATH_MAX], line[64];
	unsigned long long kills = 0;
	FILE *f = snprintf(path, sizeof(path), "%s%s/%s", tree, name, file) < (int)sizeof(path) ? fopen(path, "re")
												: NULL;
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f) && sscanf(line, "oom_kill %llu", &kills) != 1)
		kills = 0;
	fclose(f);
	return (long long)kills;
}

static uint64_t look_for_kills(const struct group *group, uint64_t so_far)
{
	const char *file = group->old ? "memory.oom_control" : "memory.events";
	long long kills = read_kills(group->tree, group->name, file);
	if (kills < 0)
		kills = read_kills(group->tree, "", file);
	return so_far + (kills > 0 ? (uint64_t)kills : 0);
}

uint64_t cgroup_memory_kills_of(const char *list_path, const char *tree)
{
	return look_at_all(list_path, tree, look_for_kills, 0);
}

uint64_t cgroup_memory_kills(void)
{
	return cgroup_memory_kills_of(LIST, TREE);
}
