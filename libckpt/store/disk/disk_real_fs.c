/* What is synchronous by nature. */
#include "store/disk/disk.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static void tell(const struct stat *s, struct disk_stat *st)
{
	*st = (struct disk_stat){
		.is_dir = S_ISDIR(s->st_mode),
		.size = (uint64_t)s->st_size,
		.blocks512 = (uint64_t)s->st_blocks,
		.links = s->st_nlink,
		.dev = s->st_dev,
		.ino = s->st_ino,
		.mtime_ns = (uint64_t)s->st_mtim.tv_sec * CLOCK_NS_PER_S + (uint64_t)s->st_mtim.tv_nsec,
		.changed_ns = (uint64_t)s->st_ctim.tv_sec * CLOCK_NS_PER_S + (uint64_t)s->st_ctim.tv_nsec,
		.uid = s->st_uid,
		.mode = s->st_mode & 07777,
	};
}

int disk_stat_at(struct disk *d, int dir, const char *name, struct disk_stat *st)
{
	(void)d;
	struct stat s;
	if (fstatat(dir, name, &s, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	tell(&s, st);
	return 0;
}

int disk_stat_path(const char *path, struct disk_stat *st)
{
	struct stat s;
	if (stat(path, &s) < 0)
		return -errno;
	tell(&s, st);
	return 0;
}

int disk_chmod(struct disk *d, int dir, uint32_t mode)
{
	(void)d;
	return fchmod(dir, (mode_t)mode) ? -errno : 0;
}

int disk_list(struct disk *d, int dir, int (*fn)(void *arg, const char *name), void *arg)
{
	(void)d;
	/* A descriptor of its own: the position in a directory belongs to the open file. */
	AUTO_CLOSE int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	AUTO_CLOSEDIR DIR *stream = fdopendir(fd);
	if (!stream)
		return -errno;
	steal_fd(&fd);
	for (;;) {
		errno = 0;
		struct dirent *entry = readdir(stream);
		if (!entry)
			return -errno;
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		int rc = fn(arg, entry->d_name);
		if (rc)
			return rc;
	}
}

/* Whoever can open it at all can lock it. Who may not write here has nothing to lock: reading is for those who may write, as the umask says.
 * It is made without reading for others, so that nobody can open it before it has its mode. One that root has made is that of the directory's
 * owner, who comes after. */
#define LOCK_MODE (S_IRUSR | S_IWUSR | S_IWGRP)
enum { LOCK_TRIES = 8 };

static int keep_lock_closed(int dir, int fd, const struct stat *st)
{
	struct stat parent;
	mode_t mode = st->st_mode & 0666 & ~(mode_t)(S_IRGRP | S_IROTH);
	if (mode & S_IWGRP)
		mode |= S_IRGRP;
	if (mode & S_IWOTH)
		mode |= S_IROTH;
	if (fstat(dir, &parent) < 0)
		return -errno;
	if (!geteuid() && st->st_uid != parent.st_uid && fchown(fd, parent.st_uid, parent.st_gid) < 0 && errno != EPERM)
		return -errno;
	if ((st->st_mode & 0666) != mode && st->st_uid == geteuid() && fchmod(fd, mode) < 0 && errno != EPERM)
		return -errno;
	return 0;
}

static int open_lock(int dir, const char *name)
{
	int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	struct stat st;
	if (!fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) && !S_ISREG(st.st_mode))
		return S_ISLNK(st.st_mode) ? -ELOOP : -EINVAL;
	AUTO_CLOSE int fd = openat(dir, name, O_RDWR | O_CREAT | flags, LOCK_MODE);
	/* Of another user: to lock it locally it is enough to read it; or to write to it, before it has its mode. */
	if (fd < 0 && errno == EACCES && (fd = openat(dir, name, O_RDONLY | flags)) < 0 &&
	    (fd = openat(dir, name, O_WRONLY | flags)) < 0)
		return -EACCES;
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	int rc = S_ISREG(st.st_mode) ? keep_lock_closed(dir, fd, &st) : -EINVAL;
	return rc < 0 ? rc : steal_fd(&fd);
}

bool disk_lock_stands(struct disk *d, int dir, const char *name, int lock)
{
	(void)d;
	struct stat held, named;
	if (fstat(lock, &held) < 0)
		return true;
	if (fstatat(dir, name, &named, AT_SYMLINK_NOFOLLOW) < 0)
		return errno != ENOENT;
	return held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

static int lock_once(int dir, const char *name, int how)
{
	AUTO_CLOSE int fd = open_lock(dir, name);
	int rc;
	if (fd < 0)
		return fd;
	do {
		rc = flock(fd, how | LOCK_NB);
	} while (rc < 0 && errno == EINTR);
	return rc < 0 ? -errno : steal_fd(&fd);
}

/* A file that is deleted between the open and the lock locks nobody out. */
static int lock_file(int dir, const char *name, int how)
{
	for (int tries = 0; tries < LOCK_TRIES; tries++) {
		AUTO_CLOSE int fd = lock_once(dir, name, how);
		if (fd < 0 || disk_lock_stands(NULL, dir, name, fd))
			return fd < 0 ? fd : steal_fd(&fd);
	}
	return -ESTALE; /* not -EAGAIN, which is -EWOULDBLOCK: nobody is known to hold it */
}

int disk_lock(struct disk *d, int dir, const char *name)
{
	(void)d;
	return lock_file(dir, name, LOCK_EX);
}

int disk_share(struct disk *d, int dir, const char *name)
{
	(void)d;
	return lock_file(dir, name, LOCK_SH);
}

int disk_space(struct disk *d, int dir, uint64_t *free_bytes, uint64_t *total_bytes)
{
	(void)d;
	struct statvfs s;
	if (fstatvfs(dir, &s) < 0)
		return -errno;
	*free_bytes = (uint64_t)s.f_bavail * s.f_frsize;
	*total_bytes = (uint64_t)s.f_blocks * s.f_frsize;
	return 0;
}
