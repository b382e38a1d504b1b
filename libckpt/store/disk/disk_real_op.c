#include "store/disk/disk_real.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
	const char *before, *after;
} failpoints[] = {
	[DISK_MKDIR] = {"disk.mkdir", "disk.mkdir.after"},
	[DISK_OPEN] = {"disk.open", "disk.open.after"},
	[DISK_WRITE] = {"disk.write", "disk.write.after"},
	[DISK_READ] = {"disk.read", "disk.read.after"},
	[DISK_FSYNC] = {"disk.fsync", "disk.fsync.after"},
	[DISK_TRUNCATE] = {"disk.truncate", "disk.truncate.after"},
	[DISK_ALLOCATE] = {"disk.allocate", "disk.allocate.after"},
	[DISK_LINK] = {"disk.link", "disk.link.after"},
	[DISK_RENAME] = {"disk.rename", "disk.rename.after"},
	[DISK_UNLINK] = {"disk.unlink", "disk.unlink.after"},
	[DISK_RMDIR] = {"disk.rmdir", "disk.rmdir.after"},
	[DISK_CLOSE] = {"disk.close", "disk.close.after"},
};

bool op_is_transfer(const struct disk_op *op)
{
	return op->kind == DISK_WRITE || op->kind == DISK_READ;
}

/* Fit for O_DIRECT: then the rest of a short transfer must be, too. */
static bool is_aligned(const struct disk_op *op)
{
	return ((uintptr_t)op->buf | op->offset | op->len) % DISK_ALIGN == 0;
}

static uint64_t align_down(uint64_t n)
{
	return n / DISK_ALIGN * DISK_ALIGN;
}

/* ---- start */

static int truncate_now(const struct disk_op *op)
{
	int rc;
	do {
		rc = ftruncate(op->file, (off_t)op->offset);
	} while (rc < 0 && errno == EINTR);
	return rc < 0 ? -errno : 0;
}

/* A FIFO in a hostile store would block the open for ever. */
static int check_readable(const struct disk_op *op)
{
	struct stat st;
	if (fstatat(op->dir, op->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return -ELOOP;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	return S_ISREG(st.st_mode) ? 0 : -EINVAL;
}

int op_start(struct disk *d, struct disk_op *op)
{
	if (op->kind < DISK_MKDIR || op->kind > DISK_CLOSE) {
		op->result = -EINVAL;
		return 1;
	}
	size_t first = op->len;
	op->result = failpoint(failpoints[op->kind].before, &first);
	if (!op->result && d->fault.until)
		op->result = disk_fault_of(&d->fault, op, clock_now());
	if (op->result)
		return 1;
	if (op->kind == DISK_TRUNCATE && !d->truncates) {
		op->result = truncate_now(op);
		return 1;
	}
	if (op->kind == DISK_OPEN && !(op->flags & (DISK_CREATE | DISK_DIR))) {
		op->result = check_readable(op);
		return op->result != 0;
	}
	if (first < op->len)
		op->first = is_aligned(op) ? max_u64(align_down(first), DISK_ALIGN) : max_u64(first, 1);
	return op_is_transfer(op) && !op->len;
}

/* ---- prepare */

void op_next_chunk(struct disk *d, struct disk_op *op, struct chunk *c)
{
	c->at = op->issued;
	c->len = min_u64(op->len - op->issued, DISK_CHUNK);
	buffers_find(d, (char *)op->buf + c->at, &c->len);
	op->issued += c->len;
}

static void prepare_transfer(struct disk *d, struct chunk *c)
{
	struct disk_op *op = c->op;
	struct request *r = &c->request;
	r->buf = (char *)op->buf + c->at;
	r->len = c->len;
	r->offset = op->offset + c->at;
	r->index = buffers_find(d, r->buf, &r->len);
	if (!c->at && op->first < r->len)
		r->len = op->first;
	op->first = UINT64_MAX; /* a failpoint cuts one submission */
}

static int open_flags(const struct chunk *c)
{
	unsigned flags = c->op->flags;
	int f = O_CLOEXEC | O_NOFOLLOW;
	if (flags & DISK_DIR)
		return f | O_RDONLY | O_DIRECTORY;
	if (flags & DISK_DIRECT && !c->plain_open)
		f |= O_DIRECT;
	/* The kernel checks O_EXCL, creates, and only then refuses O_DIRECT: the second try finds what the first has made. */
	if (flags & DISK_CREATE)
		return f | O_WRONLY | O_CREAT | (c->plain_open ? 0 : O_EXCL);
	return f | O_RDONLY | O_NONBLOCK;
}

void op_prepare(struct disk *d, struct chunk *c)
{
	const struct disk_op *op = c->op;
	c->request = (struct request){.kind = op->kind,
				      .dir = op->dir,
				      .dir2 = op->dir2,
				      .file = op->file,
				      .name = op->name,
				      .name2 = op->name2,
				      .offset = op->offset,
				      .len = op->len,
				      .index = -1};
	if (op_is_transfer(op))
		prepare_transfer(d, c);
	else if (op->kind == DISK_OPEN)
		c->request.flags = open_flags(c);
	else if (op->kind == DISK_MKDIR)
		c->request.flags = op->flags & DISK_PRIVATE ? 0700 : 0775;
	else if (op->kind == DISK_RMDIR)
		c->request.flags = AT_REMOVEDIR;
}

/* ---- complete */

static bool may_retry(struct chunk *c, int res)
{
	static const unsigned repeatable =
		1u << DISK_WRITE | 1u << DISK_READ | 1u << DISK_FSYNC | 1u << DISK_ALLOCATE | 1u << DISK_TRUNCATE;
	/* An interrupted mkdir, link or rename may have happened: a second try would be told EEXIST or ENOENT. */
	bool again = res == -EAGAIN || (res == -EINTR && repeatable & 1u << c->op->kind);
	return again && c->retries++ < DISK_RETRIES;
}

/* Nothing more is issued; the first error is the operation's. */
static bool fail_transfer(struct disk_op *op, int rc)
{
	if (!op->result)
		op->result = rc;
	op->issued = op->len;
	return false;
}

static bool end_of_file(struct disk_op *op, uint64_t at)
{
	op->end = min_u64(op->end, at);
	op->issued = op->len;
	return false;
}

/* After a transfer of res < len bytes: on to the rest. Where the operation is aligned, the rest begins at the last aligned byte:
 * what lies between is transferred again. A read that gains nothing from that is at the end of the file. */
static bool go_on(struct chunk *c, uint64_t res)
{
	struct disk_op *op = c->op;
	uint64_t gain = is_aligned(op) ? align_down(res) : res;
	if (!gain) {
		if (op->kind == DISK_READ)
			return end_of_file(op, c->at + res);
		return c->retries++ < DISK_RETRIES ? true : fail_transfer(op, -EIO);
	}
	c->at += gain;
	c->len -= gain;
	return true;
}

static bool transfer_completed(struct chunk *c, int res)
{
	if (c->op->result)
		return false; /* another chunk has failed */
	if (res < 0)
		return may_retry(c, res) || fail_transfer(c->op, res);
	if ((uint64_t)res == c->len)
		return false;
	return go_on(c, (uint64_t)res);
}

/* The file of the second try is ours when it is empty and has one name. */
static int check_created(int file)
{
	struct stat st;
	int rc = fstat(file, &st) < 0 ? -errno : 0;
	if (!rc && (!S_ISREG(st.st_mode) || st.st_size || st.st_nlink != 1))
		rc = -EEXIST;
	if (rc < 0)
		close(file);
	return rc < 0 ? rc : file;
}

/* What was looked at before it was opened may have been replaced since: it was opened without waiting for anybody. Reads of a plain file are
 * not to be told that they would have to wait. */
static int check_opened(int file)
{
	struct stat st;
	int flags = 0, rc = fstat(file, &st) < 0 ? -errno : 0;
	if (!rc && !S_ISREG(st.st_mode))
		rc = S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	if (!rc && ((flags = fcntl(file, F_GETFL)) < 0 || fcntl(file, F_SETFL, flags & ~O_NONBLOCK) < 0))
		rc = -errno;
	if (rc < 0)
		close(file);
	return rc < 0 ? rc : file;
}

static bool open_completed(struct disk *d, struct chunk *c, int res)
{
	struct disk_op *op = c->op;
	if (res == -EINVAL && op->flags & DISK_DIRECT && !c->plain_open) {
		if (!d->told_direct)
			log_warn("disk: the file system refuses O_DIRECT: going through the page cache");
		d->told_direct = c->plain_open = true;
		return true;
	}
	if (res >= 0 && c->plain_open && op->flags & DISK_CREATE)
		res = check_created(res);
	else if (res >= 0 && !(op->flags & (DISK_CREATE | DISK_DIR)))
		res = check_opened(res);
	op->result = res;
	return false;
}

bool op_completed(struct disk *d, struct chunk *c, int res)
{
	if (op_is_transfer(c->op))
		return transfer_completed(c, res);
	if (may_retry(c, res))
		return true;
	if (c->op->kind == DISK_OPEN)
		return open_completed(d, c, res);
	c->op->result = res;
	return false;
}

void op_finish(struct disk_op *op)
{
	if (!op->result && op_is_transfer(op))
		op->result = (int64_t)(op->kind == DISK_READ ? op->end : op->len);
	if (op->kind < DISK_MKDIR || op->kind > DISK_CLOSE)
		return;
	int rc = failpoint(failpoints[op->kind].after, NULL);
	if (rc && op->kind == DISK_OPEN && op->result >= 0)
		close((int)op->result);
	if (rc)
		op->result = rc;
}
