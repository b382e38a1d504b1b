#include "confine.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

enum { PIDS_MAX = 256 }; /* threads of a worker */

static int write_text(const char *folder, const char *file, const char *text)
{
	char path[PATH_MAX];
	if (snprintf(path, sizeof(path), "%s/%s", folder, file) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return -errno;
	return 0;
}

/* "0::/group" of /proc/self/cgroup. */
static bool own_group(char *dst, size_t size)
{
	char line[PATH_MAX];
	FILE *list = fopen("/proc/self/cgroup", "re");
	bool found = false;
	while (list && !found && fgets(line, sizeof(line), list)) {
		line[strcspn(line, "\n")] = '\0';
		found = !strncmp(line, "0::", 3) && snprintf(dst, size, "%s", line + 3) < (int)size;
	}
	if (list)
		fclose(list);
	return found;
}

/* systemd marks what it has delegated. */
static bool delegated(const char *folder)
{
	char mark[8] = "";
	return getxattr(folder, "user.delegate", mark, sizeof(mark) - 1) > 0 && !strcmp(mark, "1");
}

int confine_open(struct confine *g, const char *tree, struct err *err)
{
	static const char *const controllers[] = {"+memory", "+pids", "+cpu", "+io"};
	char own[PATH_MAX - 64], warden[PATH_MAX];
	g->folder[0] = '\0';
	if (!own_group(own, sizeof(own)))
		return 0;
	if (snprintf(g->folder, sizeof(g->folder), "%s%s", tree, own) >= (int)sizeof(g->folder) ||
	    !delegated(g->folder) || snprintf(warden, sizeof(warden), "%s/warden", g->folder) >= (int)sizeof(warden)) {
		g->folder[0] = '\0';
		return 0;
	}
	if (mkdir(warden, 0755) && errno != EEXIST)
		return err_set(err, -errno, "cannot make the control group %s: %s", warden, err_name(errno));
	int rc = write_text(warden, "cgroup.procs", "0");
	if (rc)
		return err_set(err, rc, "cannot move into the control group %s: %s", warden, err_name(rc));
	for (size_t i = 0; i < sizeof(controllers) / sizeof(controllers[0]); i++) {
		rc = write_text(g->folder, "cgroup.subtree_control", controllers[i]);
		if (rc)
			log_info("users are not held apart by the controller %s: %s", controllers[i] + 1, err_name(rc));
	}
	return 0;
}

static int folder_of(const struct confine *g, uid_t uid, char dst[PATH_MAX])
{
	return snprintf(dst, PATH_MAX, "%s/user-%u", g->folder, uid) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

int confine_enter(const struct confine *g, uid_t uid, uint64_t memory_max, struct err *err)
{
	char folder[PATH_MAX], text[32];
	if (!g->folder[0])
		return 0;
	int rc = folder_of(g, uid, folder);
	if (!rc && mkdir(folder, 0755) && errno != EEXIST)
		rc = -errno;
	if (!rc) {
		/* Where a controller is missing, so is the file. */
		snprintf(text, sizeof(text), "%lu", (unsigned long)memory_max);
		(void)write_text(folder, "memory.max", text);
		snprintf(text, sizeof(text), "%d", PIDS_MAX);
		(void)write_text(folder, "pids.max", text);
		rc = write_text(folder, "cgroup.procs", "0");
	}
	return rc ? err_set(err, rc, "control group %s: %s", folder, err_name(rc)) : 0;
}

void confine_remove(const struct confine *g, uid_t uid)
{
	char folder[PATH_MAX];
	if (g->folder[0] && !folder_of(g, uid, folder))
		(void)rmdir(folder); /* kept while memory is charged to it: the next worker takes it */
}
