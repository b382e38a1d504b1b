#include "change/staging.h"

#include "base/cleanup.h"
#include "store/read/repo.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

/* Splits the path into the parent, which is opened, and the last part. */
static int split(const char *path, struct staging *s, struct err *err)
{
	AUTO_FREE char *parent = strdup(path);
	if (!parent)
		return err_set(err, -ENOMEM, "no memory for a path");
	size_t len = strlen(parent);
	while (len > 1 && parent[len - 1] == '/')
		parent[--len] = 0;
	char *slash = strrchr(parent, '/');
	const char *place = slash ? slash + 1 : parent;
	if (!*place || !strcmp(place, ".") || !strcmp(place, ".."))
		return err_set(err, -EINVAL, "%s: name a new directory", path);
	if (snprintf(s->place, sizeof(s->place), "%s", place) >= (int)sizeof(s->place) - 32)
		return err_set(err, -ENAMETOOLONG, "%s: the name is too long", path);
	snprintf(s->name, sizeof(s->name), ".%.220s.ckpt-restore", place);
	if (slash)
		slash[slash == parent] = 0;
	s->parent = open(slash ? parent : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->parent < 0)
		return err_set(err, -errno, "cannot open %s, where %s is to be made: %s", slash ? parent : ".", place,
			       err_name(errno));
	return 0;
}

/* 0 or -errno of `each`, which gets the names of all entries. */
static int for_entries(int dir, int (*each)(int dir, const char *name))
{
	AUTO_CLOSE int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSEDIR DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	if (!d)
		return -errno;
	steal_fd(&fd);
	for (struct dirent *e; (e = readdir(d));) {
		int rc = strcmp(e->d_name, ".") && strcmp(e->d_name, "..") ? each(dir, e->d_name) : 0;
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int refuse(int dir, const char *name)
{
	(void)dir;
	(void)name;
	return -EEXIST;
}

static int remove_file(int dir, const char *name)
{
	return unlinkat(dir, name, 0) < 0 ? -errno : 0;
}

static int check_place(const struct staging *s, const char *path, struct err *err)
{
	AUTO_CLOSE int fd = openat(s->parent, s->place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return err_set(err, -EEXIST, "%s exists and is not a directory", path);
	int rc = fd < 0 ? -errno : for_entries(fd, refuse);
	if (rc == -EEXIST)
		return err_set(err, rc, "%s is not empty: name a directory that does not exist, or an empty one", path);
	return rc < 0 ? err_set(err, rc, "cannot read %s: %s", path, err_name(rc)) : 0;
}

/* In a repository it would be taken for a job, or for part of a checkpoint. Upwards as the kernel goes, whatever links the path has. */
static int check_outside(const struct staging *s, const char *path, struct err *err)
{
	char up[PATH_MAX] = ".", mark[PATH_MAX + sizeof("/" REPO_MARK)];
	struct stat at, above;
	for (size_t len = 1; len + sizeof("/..") < sizeof(up); len += 3) {
		snprintf(mark, sizeof(mark), "%s/%s", up, REPO_MARK);
		if (!faccessat(s->parent, mark, F_OK, 0))
			return err_set(
				err, -EINVAL,
				"%s is within a repository, where ckpt alone keeps files: name a directory outside",
				path);
		if (fstatat(s->parent, up, &at, 0) < 0)
			return 0;
		memcpy(up + len, "/..", sizeof("/.."));
		if (fstatat(s->parent, up, &above, 0) < 0 || (at.st_dev == above.st_dev && at.st_ino == above.st_ino))
			return 0;
	}
	return 0;
}

/* Whether the directory that is locked is still the one with the name: it may have been published or removed in between. */
static bool still_there(const struct staging *s)
{
	struct stat mine, named;
	return fstat(s->dir, &mine) == 0 && fstatat(s->parent, s->name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
}

/* The directory to fill, locked by this process alone. */
static int make(struct staging *s, const char *path, struct err *err)
{
	for (int tries = 0; tries < 3; tries++) {
		if (mkdirat(s->parent, s->name, 0777) < 0 && errno != EEXIST)
			return err_set(err, -errno, "cannot make %s beside %s: %s", s->name, path, err_name(errno));
		s->dir = openat(s->parent, s->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (s->dir < 0 && errno != ENOENT)
			return err_set(err, -errno, "cannot open %s beside %s: %s", s->name, path, err_name(errno));
		if (s->dir < 0)
			continue;
		if (flock(s->dir, LOCK_EX | LOCK_NB) == 0 && still_there(s))
			return 0;
		int rc = -errno;
		bool locked = still_there(s);
		close(steal_fd(&s->dir));
		if (locked)
			return err_set(err, rc, "another restore into %s is running", path);
	}
	return err_set(err, -EWOULDBLOCK, "another restore into %s is running", path);
}

int staging_open(const char *path, struct staging *s, struct err *err)
{
	*s = (struct staging){.parent = -1, .dir = -1};
	int rc = split(path, s, err);
	if (rc == 0)
		rc = check_place(s, path, err);
	if (rc == 0)
		rc = check_outside(s, path, err);
	if (rc == 0)
		rc = make(s, path, err);
	if (rc == 0)
		rc = staging_clear(s, err);
	if (rc < 0)
		staging_close(s);
	return rc;
}

int staging_space(const struct staging *s, uint64_t *free_bytes, struct err *err)
{
	struct statvfs st;
	if (fstatvfs(s->dir, &st) < 0)
		return err_set(err, -errno, "cannot tell the free space beside %s: %s", s->place, err_name(errno));
	*free_bytes = (uint64_t)st.f_bavail * st.f_frsize;
	return 0;
}

int staging_clear(const struct staging *s, struct err *err)
{
	int rc = for_entries(s->dir, remove_file);
	return rc < 0 ? err_set(err, rc, "cannot clear %s: %s", s->name, err_name(rc)) : 0;
}

int staging_publish(const struct staging *s, struct err *err)
{
	if (fsync(s->dir) < 0)
		return err_set(err, -errno, "syncing %s: %s", s->name, err_name(errno));
	if (renameat(s->parent, s->name, s->parent, s->place) < 0)
		return err_set(err, -errno, "moving %s to %s: %s%s", s->name, s->place, err_name(errno),
			       errno == EBUSY ? " (a mount point? Name a directory below it)" : "");
	if (fsync(s->parent) < 0)
		return err_set(err, -errno, "syncing the directory of %s: %s", s->place, err_name(errno));
	return 0;
}

void staging_close(struct staging *s)
{
	if (s->dir >= 0) {
		if (still_there(s)) {
			for_entries(s->dir, remove_file);
			unlinkat(s->parent, s->name, AT_REMOVEDIR);
		}
		close(steal_fd(&s->dir));
	}
	if (s->parent >= 0)
		close(steal_fd(&s->parent));
}
