/* The synchronous face of disk.h, built on its asynchronous one: works with every implementation. */
#include "store/disk/disk.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "store/disk/denied.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TEMPORARIES = 64, TEMPORARY_MAX = 256 };

static void mark_done(struct disk_op *op)
{
	*(bool *)op->arg = true;
}

int disk_do(struct disk *d, struct disk_op *op)
{
	bool done = false;
	void *arg = op->arg;
	void (*callback)(struct disk_op *) = op->done;
	op->arg = &done;
	op->done = mark_done;
	disk_submit(d, op);
	while (!done) {
		if (!disk_poll(d, clock_deadline(10 * CLOCK_NS_PER_S)) && !done)
			log_warn("disk: operation %d on %s has not come back for 10 s: waiting on", op->kind,
				 op->name ? op->name : "a file");
	}
	op->arg = arg;
	op->done = callback;
	return op->result < 0 ? (int)op->result : (int)min_u64((uint64_t)op->result, INT32_MAX);
}

int disk_open_at(struct disk *d, int dir, const char *name, unsigned flags)
{
	struct disk_op op = {.kind = DISK_OPEN, .dir = dir, .name = name, .flags = flags};
	return disk_do(d, &op);
}

int disk_close_file(struct disk *d, int file)
{
	struct disk_op op = {.kind = DISK_CLOSE, .file = file};
	return disk_do(d, &op);
}

int disk_fsync(struct disk *d, int file)
{
	struct disk_op op = {.kind = DISK_FSYNC, .file = file};
	return disk_do(d, &op);
}

/* ---- names */

static bool is_same(struct disk *d, const struct disk_stat *was, int dir, const char *name)
{
	struct disk_stat st;
	return !disk_stat_at(d, dir, name, &st) && st.dev == was->dev && st.ino == was->ino;
}

int disk_link_at(struct disk *d, int dir, const char *name, int dir2, const char *name2)
{
	struct disk_op op = {.kind = DISK_LINK, .dir = dir, .name = name, .dir2 = dir2, .name2 = name2};
	struct disk_stat st;
	int rc = disk_do(d, &op);
	bool done = rc == -EEXIST && !disk_stat_at(d, dir, name, &st) && is_same(d, &st, dir2, name2);
	return done ? 0 : rc;
}

int disk_rename_at(struct disk *d, int dir, const char *name, const char *name2)
{
	struct disk_op op = {.kind = DISK_RENAME, .dir = dir, .name = name, .dir2 = dir, .name2 = name2};
	struct disk_stat st;
	int rc = disk_stat_at(d, dir, name, &st);
	if (rc < 0)
		return rc;
	rc = disk_do(d, &op);
	return rc == -ENOENT && is_same(d, &st, dir, name2) ? 0 : rc;
}

/* ---- read */

static int read_open_file(struct disk *d, int file, const char *name, uint64_t size, void **out, size_t *len,
			  struct err *err)
{
	/* One byte more than it should have: a file that grows meanwhile is not mistaken for a whole one. */
	AUTO_FREE char *buf = malloc(size + 1);
	if (!buf)
		return err_set(err, -ENOMEM, "%s: no memory for %" PRIu64 " bytes", name, size);
	struct disk_op op = {.kind = DISK_READ, .file = file, .buf = buf, .len = size + 1};
	int rc = disk_do(d, &op);
	if (rc < 0)
		return err_set(err, rc, "cannot read %s: %s", name, err_name(rc));
	if ((uint64_t)op.result > size)
		return err_set(err, -EAGAIN, "%s grew while it was read", name);
	*len = (size_t)op.result;
	buf[*len] = 0;
	*out = steal_ptr(&buf);
	return 0;
}

int disk_read_file(struct disk *d, int dir, const char *name, uint64_t max, void **out, size_t *len, struct err *err)
{
	struct disk_stat st;
	*out = NULL;
	*len = 0;
	int rc = disk_stat_at(d, dir, name, &st);
	if (rc < 0)
		return err_set(err, rc, "cannot read %s: %s", name, err_name(rc));
	if (st.size > max)
		return err_set(err, -EFBIG, "%s has %" PRIu64 " bytes, at most %" PRIu64 " are read", name, st.size,
			       max);
	int file = disk_open_at(d, dir, name, DISK_RDONLY);
	if (file < 0)
		return err_set(err, file, "cannot open %s: %s", name, err_name(file));
	rc = read_open_file(d, file, name, st.size, out, len, err);
	disk_close_file(d, file);
	return rc;
}

/* ---- put */

static int unlink_at(struct disk *d, int dir, const char *name)
{
	struct disk_op op = {.kind = DISK_UNLINK, .dir = dir, .name = name};
	return disk_do(d, &op);
}

/* Creates the first ".tmp-<name>.<n>" that is free: those of a crash may stand there. */
static int create_temporary(struct disk *d, int dir, const char *name, char tmp[TEMPORARY_MAX], struct err *err)
{
	for (int n = 0; n < TEMPORARIES; n++) {
		int len = snprintf(tmp, TEMPORARY_MAX, ".tmp-%s.%d", name, n);
		if (len >= TEMPORARY_MAX)
			return err_set(err, -ENAMETOOLONG, "%s is too long a name", name);
		int file = disk_open_at(d, dir, tmp, DISK_CREATE);
		if (file >= 0)
			return file;
		if (file != -EEXIST) {
			err_set(err, file, "cannot create %s: %s", tmp, err_name(file));
			return denied_dir(d, dir, file, err);
		}
	}
	return err_set(err, -EEXIST, "%d files .tmp-%s.* are in the way: remove them", TEMPORARIES, name);
}

static int fill(struct disk *d, int file, const char *tmp, const void *data, size_t len, struct err *err)
{
	struct disk_op write = {.kind = DISK_WRITE, .file = file, .buf = (void *)data, .len = len};
	int rc = disk_do(d, &write);
	if (rc < 0)
		return err_set(err, rc, "cannot write %s: %s", tmp, err_name(rc));
	rc = disk_fsync(d, file);
	return rc < 0 ? err_set(err, rc, "cannot fsync %s: %s", tmp, err_name(rc)) : 0;
}

/* For file systems without hard links. */
static int rename_absent(struct disk *d, int dir, const char *tmp, const char *name)
{
	struct disk_stat st;
	int rc = disk_stat_at(d, dir, name, &st);
	if (!rc)
		return -EEXIST;
	return rc == -ENOENT ? disk_rename_at(d, dir, tmp, name) : rc;
}

/* Gives the temporary its name. With a link the temporary stays and is removed here. */
static int publish(struct disk *d, int dir, const char *tmp, const char *name, bool replace, struct err *err)
{
	int rc = replace ? disk_rename_at(d, dir, tmp, name) : disk_link_at(d, dir, tmp, dir, name);
	if (!rc && !replace)
		unlink_at(d, dir, tmp); /* the name is there: a temporary that stays is only litter */
	if (!replace && (rc == -EPERM || rc == -EOPNOTSUPP || rc == -ENOSYS || rc == -EMLINK))
		rc = rename_absent(d, dir, tmp, name);
	return rc < 0 ? err_set(err, rc, "cannot name %s %s: %s", tmp, name, err_name(rc)) : 0;
}

static int sync_directory(struct disk *d, int dir, const char *name, struct err *err)
{
	int rc = disk_fsync(d, dir);
	return rc < 0 ? err_set(err, rc, "cannot fsync the directory of %s: %s", name, err_name(rc)) : 0;
}

int disk_put_file(struct disk *d, int dir, const char *name, const void *data, size_t len, bool replace,
		  struct err *err)
{
	char tmp[TEMPORARY_MAX];
	int file = create_temporary(d, dir, name, tmp, err);
	if (file < 0)
		return file;
	int rc = fill(d, file, tmp, data, len, err);
	int closed = disk_close_file(d, file);
	if (!rc && closed < 0)
		rc = err_set(err, closed, "cannot close %s: %s", tmp, err_name(closed));
	if (!rc)
		rc = publish(d, dir, tmp, name, replace, err);
	if (rc < 0) {
		unlink_at(d, dir, tmp);
		return rc;
	}
	return sync_directory(d, dir, name, err);
}

int disk_remove_file(struct disk *d, int dir, const char *name, struct err *err)
{
	int rc = unlink_at(d, dir, name);
	int synced = rc && rc != -ENOENT ? 0 : sync_directory(d, dir, name, err);
	if (synced || !rc)
		return synced;
	err_set(err, rc, "cannot remove %s: %s", name, err_name(rc));
	return denied_dir(d, dir, rc, err);
}
