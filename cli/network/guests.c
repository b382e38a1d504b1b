/* Who else is in the network of a campaign: processes in its namespaces, and mounts of these. */
#include "network/net.h"

#include "base/cleanup.h"
#include "base/number.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 64 };

static bool is_same(const struct stat *a, int fd)
{
	struct stat b;
	return !fstat(fd, &b) && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

static bool is_of(const struct campaign_net *net, const struct stat *space)
{
	for (uint32_t k = 0; k < net->nodes; k++)
		if (is_same(space, net->node[k]))
			return true;
	return is_same(space, net->bridge);
}

static bool find_process(const struct campaign_net *net, char text[CAMPAIGN_NET_TEXT_MAX])
{
	AUTO_CLOSEDIR DIR *dir = opendir("/proc");
	bool found = false;
	for (struct dirent *e; !found && dir && (e = readdir(dir));) {
		char path[PATH_BYTES];
		struct stat space;
		uint64_t pid;
		if (!number_parse(e->d_name, INT_MAX, &pid))
			continue;
		snprintf(path, sizeof(path), "/proc/%u/ns/net", (unsigned)pid);
		found = !stat(path, &space) && is_of(net, &space);
		if (found)
			snprintf(text, CAMPAIGN_NET_TEXT_MAX, "process %u is in a network namespace of the campaign",
				 (unsigned)pid);
	}
	return found;
}

static bool find_mount(const struct campaign_net *net, char text[CAMPAIGN_NET_TEXT_MAX])
{
	AUTO_FREE char *line = NULL;
	size_t room = 0;
	bool found = false;
	FILE *f = fopen("/proc/self/mountinfo", "re");
	while (!found && f && getline(&line, &room, f) > 0) {
		char point[CAMPAIGN_NET_TEXT_MAX - PATH_BYTES] = "";
		struct stat space;
		found = strstr(line, " nsfs ") && sscanf(line, "%*s %*s %*s %*s %191s", point) == 1 &&
			!stat(point, &space) && is_of(net, &space);
		if (found)
			snprintf(text, CAMPAIGN_NET_TEXT_MAX, "%s is a mount of a network namespace of the campaign",
				 point);
	}
	if (f)
		fclose(f);
	return found;
}

bool campaign_net_in_use(const struct campaign_net *net, char text[CAMPAIGN_NET_TEXT_MAX])
{
	return net->nodes && (find_process(net, text) || find_mount(net, text));
}
