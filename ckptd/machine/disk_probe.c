#include "machine/disk_probe.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "format/tensor/names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int write_all(int fd)
{
	char bytes[DISK_PROBE_BYTES];
	memset(bytes, 'c', sizeof(bytes));
	ssize_t n = write(fd, bytes, sizeof(bytes));
	if (n < 0)
		return -errno;
	if ((size_t)n < sizeof(bytes))
		return -ENOSPC;
	return fsync(fd) ? -errno : 0;
}

static int write_file(int dir, const char *name)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	int rc = write_all(fd);
	if (close(fd) && !rc) /* a server may tell only now */
		rc = -errno;
	return rc;
}

int disk_probe(const char *store, const char *node, uint64_t *ns)
{
	char name[NAME_NODE_MAX + 8];
	AUTO_CLOSE int dir = open(store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	snprintf(name, sizeof(name), ".check-%s", node);
	if (unlinkat(dir, name, 0) && errno != ENOENT)
		return -errno;
	uint64_t begun = clock_now();
	int rc = write_file(dir, name);
	if (!rc)
		*ns = clock_now() - begun;
	if (unlinkat(dir, name, 0) && errno != ENOENT && !rc)
		rc = -errno;
	return rc;
}
