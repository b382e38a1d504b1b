#include "operate/doctor.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "store/disk/denied.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

enum { BLOCK = 4096, FREE_PERCENT = 10, NAME_MAX_HERE = 64 };

enum { MAGIC_LUSTRE = 0x0bd00bd0 };

/* By the type that statfs tells. */
static const struct {
	unsigned long type;
	const char *name;
} kinds[] = {
	{EXT4_SUPER_MAGIC, "ext4"},      {XFS_SUPER_MAGIC, "xfs"},
	{BTRFS_SUPER_MAGIC, "btrfs"},    {F2FS_SUPER_MAGIC, "f2fs"},
	{NFS_SUPER_MAGIC, "NFS"},        {SMB2_SUPER_MAGIC, "SMB"},
	{CEPH_SUPER_MAGIC, "CephFS"},    {FUSE_SUPER_MAGIC, "FUSE"},
	{MAGIC_LUSTRE, "Lustre"},        {TMPFS_MAGIC, "memory (tmpfs)"},
	{RAMFS_MAGIC, "memory (ramfs)"}, {OVERLAYFS_SUPER_MAGIC, "a container's own layer (overlay)"},
};

/* A directory in which to try; name and other belong to this process alone. */
struct place {
	int dir;
	char path[PATH_MAX];
	char name[NAME_MAX_HERE], other[NAME_MAX_HERE];
};

/* 0 or -errno of the first step that fails. */
static int try_write(const struct place *p, int flags)
{
	void *block = NULL;
	if (posix_memalign(&block, BLOCK, BLOCK))
		return -ENOMEM;
	AUTO_FREE void *held = block;
	memset(held, 0, BLOCK);
	AUTO_CLOSE int fd = openat(p->dir, p->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	if (fd < 0)
		return -errno;
	ssize_t n = write(fd, held, BLOCK);
	int rc = n < 0 || (n == BLOCK && fsync(fd) < 0) ? -errno : n < BLOCK ? -ENOSPC : 0;
	unlinkat(p->dir, p->name, 0);
	return rc;
}

static int try_link(const struct place *p)
{
	AUTO_CLOSE int fd = openat(p->dir, p->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	int rc = linkat(p->dir, p->name, p->dir, p->other, 0) < 0 ? -errno : 0;
	if (!rc)
		unlinkat(p->dir, p->other, 0);
	unlinkat(p->dir, p->name, 0);
	return rc;
}

static int try_lock(const struct place *p)
{
	AUTO_CLOSE int fd = openat(p->dir, p->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	int rc = flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
	unlinkat(p->dir, p->name, 0);
	return rc;
}

static const char *kind_name(unsigned long type)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].type == type)
			return kinds[i].name;
	return "a file system";
}

static void check_kind(struct doctor *d, const struct place *p)
{
	struct statfs s;
	if (fstatfs(p->dir, &s) < 0)
		return;
	unsigned long kind = (unsigned long)s.f_type & 0xffffffff;
	bool memory = kind == TMPFS_MAGIC || kind == RAMFS_MAGIC, overlay = kind == OVERLAYFS_SUPER_MAGIC;
	if (kind == MAGIC_LUSTRE) {
		doctor_lustre(d, p->dir, p->path);
		return;
	}
	doctor_add(d, "store-kind",
		   memory    ? RESULT_DEGRADED
		   : overlay ? RESULT_NOTE
			     : RESULT_FINE,
		   memory ? "What is called durable is lost with this machine."
			  : "A container's own layer goes away with the container.",
		   "Put the store on a disk, or on a file system that all nodes share.", "%s", kind_name(kind));
}

static void check_space(struct doctor *d, const struct place *p)
{
	struct statvfs s;
	char left[16], all[16];
	if (fstatvfs(p->dir, &s) < 0)
		return;
	uint64_t is = (uint64_t)s.f_bavail * s.f_frsize, of = (uint64_t)s.f_blocks * s.f_frsize;
	doctor_add(d, "store-space",
		   !is                            ? RESULT_BROKEN
		   : is < of / 100 * FREE_PERCENT ? RESULT_DEGRADED
						  : RESULT_FINE,
		   "A checkpoint that does not fit fails, and training goes on without it.",
		   "Delete checkpoints that nobody needs (ckpt forget), or raise the quota.", "%s free of %s",
		   bytes_human(left, sizeof(left), is), bytes_human(all, sizeof(all), of));
}

static void check_writing(struct doctor *d, const struct place *p)
{
	struct err why;
	int rc = try_write(p, 0);
	err_set(&why, rc, "%s", rc ? err_name(rc) : "files can be written and synced");
	denied_path(p->path, rc, &why);
	doctor_add(d, "store-write", rc ? RESULT_BROKEN : RESULT_FINE, "Nothing is saved there.",
		   "Give ckptd's user the right to write there, mount it for writing, and make room. Over NFS, run it "
		   "as the "
		   "user to whom the store belongs: root is nobody where it is squashed.",
		   "%s", why.text);
	if (rc)
		return;
	rc = try_write(p, O_DIRECT);
	doctor_add(d, "o-direct", rc ? RESULT_DEGRADED : RESULT_FINE,
		   "Checkpoints go through the page cache: more processor time, and training's own cached files are "
		   "pushed out.",
		   "Use a file system that has O_DIRECT (ext4, xfs, most parallel ones).", "%s",
		   rc ? err_name(rc) : "there");
	rc = try_link(p);
	doctor_add(d, "hard-links", rc ? RESULT_DEGRADED : RESULT_FINE, "Groups that did not change are written again.",
		   "Use a file system that has hard links.", "%s", rc ? err_name(rc) : "there");
	rc = try_lock(p);
	doctor_add(d, "file-lock", rc ? RESULT_BROKEN : RESULT_FINE,
		   "ckptd does not start: two of them could write to one store.",
		   "Use a file system with locks (NFS: version 4, or a running lockd; Lustre: mount with flock).", "%s",
		   rc ? err_name(rc) : "there");
}

/* A store that is not there yet is made below its parent. */
static int open_place(const char *store, struct place *p, bool *parent)
{
	char *path = p->path;
	snprintf(path, sizeof(p->path), "%s", store);
	p->dir = open(store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*parent = p->dir < 0 && errno == ENOENT;
	if (*parent) {
		size_t n = strlen(path);
		while (n > 1 && path[n - 1] == '/')
			path[--n] = 0;
		char *slash = strrchr(path, '/');
		if (slash)
			slash[slash == path] = 0;
		else
			snprintf(path, sizeof(p->path), ".");
		p->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	snprintf(p->name, sizeof(p->name), ".ckpt-doctor-%d", (int)getpid());
	snprintf(p->other, sizeof(p->other), ".ckpt-doctor-%d-2", (int)getpid());
	return p->dir < 0 ? -errno : 0;
}

void doctor_store(struct doctor *d)
{
	struct place p;
	bool parent;
	if (!d->store) {
		doctor_add(d, "store", RESULT_NOTE, "Checkpoints stay in memory and are lost with this machine.",
			   "Name one with --store, CKPT_STORE or the configuration file.", "none is named");
		return;
	}
	int rc = open_place(d->store, &p, &parent);
	struct err found;
	err_set(&found, rc, "%.200s%s%s", d->store, rc ? ": " : parent ? ": will be made" : "", rc ? err_name(rc) : "");
	denied_path(p.path, rc, &found);
	doctor_add(d, "store", rc ? RESULT_BROKEN : RESULT_FINE, "ckptd does not start.",
		   "Make the directory above it, and let ckptd's user into it.", "%s", found.text);
	if (rc)
		return;
	AUTO_CLOSE int dir = p.dir;
	(void)dir;
	check_kind(d, &p);
	check_space(d, &p);
	check_writing(d, &p);
}
