#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void die(const char *what, const char *path)
{
	fprintf(stderr, "scratch: %s %s: %s\n", what, path, strerror(errno));
	abort();
}

void scratch_new(char path[SCRATCH_MAX])
{
	const char *tmp = getenv("TMPDIR");
	snprintf(path, SCRATCH_MAX, "%s/ckpt-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(path))
		die("mkdtemp", path);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void scratch_remove(const char *path)
{
	if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) < 0)
		die("remove", path);
}

static int open_in(const char *dir, const char *name, int flags)
{
	char path[1024];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	int fd = open(path, flags | O_CLOEXEC, 0644);
	if (fd < 0)
		die("open", path);
	return fd;
}

static size_t size_of(int fd, const char *name)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		die("stat", name);
	return (size_t)st.st_size;
}

size_t scratch_size(const char *dir, const char *name)
{
	int fd = open_in(dir, name, O_RDONLY);
	size_t size = size_of(fd, name);
	close(fd);
	return size;
}

void *scratch_read(const char *dir, const char *name, size_t *len)
{
	int fd = open_in(dir, name, O_RDONLY);
	size_t size = size_of(fd, name);
	char *data = malloc(size + 1);
	if (!data || pread(fd, data, size, 0) != (ssize_t)size)
		die("read", name);
	close(fd);
	data[size] = 0;
	if (len)
		*len = size;
	return data;
}

void scratch_write(const char *dir, const char *name, const void *data, size_t len)
{
	int fd = open_in(dir, name, O_WRONLY | O_CREAT | O_TRUNC);
	if (write(fd, data, len) != (ssize_t)len)
		die("write", name);
	close(fd);
}

void scratch_flip(const char *dir, const char *name, size_t byte, unsigned bit)
{
	unsigned char c;
	int fd = open_in(dir, name, O_RDWR);
	if (pread(fd, &c, 1, (off_t)byte) != 1)
		die("read", name);
	c ^= (unsigned char)(1u << bit);
	if (pwrite(fd, &c, 1, (off_t)byte) != 1)
		die("write", name);
	close(fd);
}
