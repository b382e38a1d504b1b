#include "store/manage/trash.h"

#include "base/clock.h"
#include "store/disk/denied.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOCK_PAUSE_MS = 20, NONCE_MAX = 18 };

int trash_lock(struct repo *repo, uint64_t deadline, struct err *err)
{
	for (;;) {
		int lock = disk_lock(repo->disk, repo->root, REPO_GC_LOCK);
		if (lock >= 0)
			return lock;
		if (lock != -EWOULDBLOCK) {
			err_set(err, lock, "cannot lock %s/%s: %s", repo->path, REPO_GC_LOCK, err_name(lock));
			return denied_dir(repo->disk, repo->root, lock, err);
		}
		if (clock_now() >= deadline)
			return err_set(err, lock, "another process is removing checkpoints from %s (it holds %s)",
				       repo->path, REPO_GC_LOCK);
		nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE_MS * CLOCK_NS_PER_MS}, NULL);
	}
}

void trash_name(const char *name, uint64_t nonce, char dst[TRASH_NAME_MAX])
{
	int room = TRASH_NAME_MAX - (int)sizeof(REPO_TRASH) - NONCE_MAX;
	snprintf(dst, TRASH_NAME_MAX, "%s%.*s.%" PRIx64, REPO_TRASH, room, name + (name[0] == '.'), nonce);
}

/* ---- listing */

static uint64_t goes_with(const struct disk_stat *st)
{
	return st->links > 1 ? 0 : st->blocks512 * 512;
}

struct listing {
	struct disk *disk;
	int dir;
	struct trash_file *files;
	size_t n;
};

static int add_file(void *arg, const char *name)
{
	struct listing *l = arg;
	struct disk_stat st;
	int rc = disk_stat_at(l->disk, l->dir, name, &st);
	if (rc == -ENOENT || (!rc && st.is_dir))
		return 0;
	if (rc < 0)
		return rc;
	struct trash_file *f = &l->files[l->n++];
	snprintf(f->name, sizeof(f->name), "%s", name);
	f->bytes = goes_with(&st);
	return l->n == TRASH_LISTED;
}

int trash_files(struct disk *disk, int dir, struct trash_file **files, size_t *n)
{
	struct listing l = {.disk = disk, .dir = dir, .files = calloc(TRASH_LISTED, sizeof(*l.files))};
	*files = NULL;
	*n = 0;
	if (!l.files)
		return -ENOMEM;
	int rc = disk_list(disk, dir, add_file, &l);
	if (rc < 0) {
		free(l.files);
		return rc;
	}
	*files = l.files;
	*n = l.n;
	return 0;
}

/* ---- removal */

static int open_job(struct repo *repo, const char *job, struct err *err)
{
	int dir = disk_open_at(repo->disk, repo->root, job, DISK_DIR);
	return dir < 0 ? err_set(err, dir, "cannot open %s/%s: %s", repo->path, job, err_name(dir)) : dir;
}

int trash_move(struct repo *repo, const char *job, const char *name, char trash[TRASH_NAME_MAX], struct err *err)
{
	int dir = open_job(repo, job, err);
	if (dir < 0)
		return dir;
	trash_name(name, clock_wall(), trash);
	int rc = disk_rename_at(repo->disk, dir, name, trash);
	if (!rc)
		rc = disk_fsync(repo->disk, dir);
	if (rc < 0) {
		err_set(err, rc, "cannot move %s/%s/%s out of the way: %s", repo->path, job, name, err_name(rc));
		denied_dir(repo->disk, dir, rc, err);
	}
	disk_close_file(repo->disk, dir);
	return rc;
}

static int unlink_at(struct disk *disk, int dir, const char *name)
{
	struct disk_op op = {.kind = DISK_UNLINK, .dir = dir, .name = name};
	int rc = disk_do(disk, &op);
	return rc == -ENOENT ? 0 : rc;
}

static int empty(struct disk *disk, int dir, uint64_t *freed)
{
	struct disk_stat st;
	size_t n = 1;
	uint64_t bytes = disk_stat_at(disk, dir, NAME_MANIFEST, &st) ? 0 : goes_with(&st);
	int rc = unlink_at(disk, dir, NAME_MANIFEST);
	*freed += rc ? 0 : bytes;
	while (!rc && n) {
		struct trash_file *files;
		rc = trash_files(disk, dir, &files, &n);
		for (size_t i = 0; !rc && i < n; i++) {
			rc = unlink_at(disk, dir, files[i].name);
			*freed += rc ? 0 : files[i].bytes;
		}
		free(files);
	}
	return rc;
}

int trash_sweep(struct repo *repo, const char *job, const char *trash, uint64_t *freed, struct err *err)
{
	int job_dir = open_job(repo, job, err);
	if (job_dir < 0)
		return job_dir;
	struct disk_op rmdir = {.kind = DISK_RMDIR, .dir = job_dir, .name = trash};
	int rc = disk_fsync(repo->disk, job_dir);
	int dir = rc ? rc : disk_open_at(repo->disk, job_dir, trash, DISK_DIR);
	rc = dir;
	if (dir >= 0) {
		rc = empty(repo->disk, dir, freed);
		disk_close_file(repo->disk, dir);
	}
	if (!rc)
		rc = disk_do(repo->disk, &rmdir);
	disk_close_file(repo->disk, job_dir);
	if (!rc || rc == -ENOENT) /* somebody else has swept it */
		return 0;
	return err_set(err, rc, "cannot delete %s/%s/%s: %s", repo->path, job, trash, err_name(rc));
}
