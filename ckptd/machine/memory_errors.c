#include "machine/memory_errors.h"

#include "base/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int read_count(int dir, const char *controller, const char *file, uint64_t *count)
{
	char path[300], text[32], *end;
	snprintf(path, sizeof(path), "%s/%s", controller, file);
	AUTO_CLOSE int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	errno = 0;
	*count = strtoull(text, &end, 10);
	return errno ? -errno : end == text ? -EINVAL : 0;
}

static int read_controller(int dir, const char *name, struct memory_errors *sum)
{
	uint64_t corrected, uncorrected;
	int rc = read_count(dir, name, "ce_count", &corrected);
	if (!rc)
		rc = read_count(dir, name, "ue_count", &uncorrected);
	if (rc)
		return rc;
	sum->corrected += corrected;
	sum->uncorrected += uncorrected;
	sum->controllers++;
	return 0;
}

/* mc0, mc1, …; beside them are files of the core. */
static bool is_controller(const char *name)
{
	return !strncmp(name, "mc", 2) && name[2] >= '0' && name[2] <= '9';
}

int memory_errors_read(const char *sysfs, struct memory_errors *out)
{
	char path[4096];
	int rc = 0;
	*out = (struct memory_errors){0};
	snprintf(path, sizeof(path), "%s/" MEMORY_ERRORS_DIR, sysfs);
	DIR *dir = opendir(path);
	if (!dir)
		return -errno;
	for (struct dirent *entry; !rc && (entry = readdir(dir));)
		if (is_controller(entry->d_name))
			rc = read_controller(dirfd(dir), entry->d_name, out);
	closedir(dir);
	return rc ? rc : out->controllers ? 0 : -ENOENT;
}
