#include "store/disk/disk_real_unsynced.h"

#include "base/cleanup.h"
#include "base/random.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
	FILES_MAX = 256,
	RANGES_MAX = 64,
	PIECE = DISK_ALIGN, /* what is lost or kept as a whole; more of it in a long range */
	PIECES_MAX = 1024
};

struct range {
	uint64_t from, to, at; /* at: the instant of the last write */
};

struct file {
	int fd; /* of its own; 0: unused */
	struct place place;
	uint64_t used;    /* by instant: which is the oldest */
	uint64_t safe;    /* the size that is durable */
	uint64_t barrier; /* the newest fsync that has begun */
	struct range ranges[RANGES_MAX];
	unsigned n;
};

static struct file files[FILES_MAX];
static uint64_t uses;

static void drop(struct file *f)
{
	close(f->fd);
	*f = (struct file){0};
}

static struct file *find(const struct stat *st)
{
	for (int i = 0; i < FILES_MAX; i++)
		if (files[i].fd && place_is(files[i].place, st))
			return &files[i];
	return NULL;
}

static struct file *find_open(int file)
{
	struct stat st;
	return fstat(file, &st) < 0 ? NULL : find(&st);
}

/* One that is unused, or the oldest: of that all counts as durable. */
static struct file *take(void)
{
	struct file *f = files;
	for (int i = 0; i < FILES_MAX && f->fd; i++)
		if (!files[i].fd || files[i].used < f->used)
			f = &files[i];
	if (f->fd)
		drop(f);
	return f;
}

static struct file *add(int file, bool created)
{
	struct stat st;
	if (fstat(file, &st) < 0 || !S_ISREG(st.st_mode))
		return NULL;
	int fd = fcntl(file, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return NULL;
	struct file *f = take();
	*f = (struct file){
		.fd = fd, .place = place_of(&st), .used = ++uses, .safe = created ? 0 : (uint64_t)st.st_size};
	return f;
}

void files_created(int file)
{
	add(file, true);
}

/* What goes on where the last write ended is one range with it, unless an fsync has begun between them. */
void files_written(int file, uint64_t offset, uint64_t len, uint64_t now)
{
	struct file *f = find_open(file);
	if (!len || (!f && !(f = add(file, false))))
		return;
	for (unsigned i = 0; i < f->n; i++)
		if (f->ranges[i].to == offset && f->ranges[i].at > f->barrier) {
			f->ranges[i].to = offset + len;
			f->ranges[i].at = now;
			return;
		}
	if (f->n == RANGES_MAX)
		memmove(f->ranges, f->ranges + 1, --f->n * sizeof(*f->ranges));
	f->ranges[f->n++] = (struct range){offset, offset + len, now};
}

void files_truncated(int file, uint64_t size)
{
	struct file *f = find_open(file);
	if (f)
		f->safe = min_u64(f->safe, size);
}

void files_syncing(int file, uint64_t now)
{
	struct file *f = find_open(file);
	if (f)
		f->barrier = now;
}

void files_synced(int file, uint64_t from)
{
	struct stat st;
	struct file *f = fstat(file, &st) < 0 ? NULL : find(&st);
	unsigned n = 0;
	if (!f)
		return;
	f->safe = (uint64_t)st.st_size;
	for (unsigned i = 0; i < f->n; i++)
		if (f->ranges[i].at > from)
			f->ranges[n++] = f->ranges[i];
	f->n = n;
}

void files_unlinking(int dir, const char *name)
{
	struct stat st;
	struct file *f = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? NULL : find(&st);
	if (f && st.st_nlink == 1)
		drop(f);
}

void files_closing(int file)
{
	struct file *f = find_open(file);
	if (f && !f->n)
		drop(f);
}

/* ---- the loss ------------------------------------------------------------------------------------------------------ */

/* A hole where the file system has them. */
static void zero(int fd, uint64_t from, uint64_t to)
{
	static const char zeros[PIECE];
	if (!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(to - from)))
		return;
	for (ssize_t n; from < to; from += (uint64_t)n) {
		n = pwrite(fd, zeros, min_u64(to - from, PIECE), (off_t)from);
		if (n <= 0)
			return;
	}
}

/* What had been durable before is not known any more, and stays. */
static void lose_range(const struct file *f, struct range r, bool all, uint64_t *seed, struct power_losses *losses)
{
	uint64_t from = max_u64(r.from, f->safe);
	if (from >= r.to)
		return;
	uint64_t piece = max_u64(align_up((r.to - from) / PIECES_MAX, PIECE), PIECE);
	losses->bytes += r.to - from;
	for (uint64_t end; from < r.to; from = end) {
		end = min_u64(from / piece * piece + piece, r.to);
		if (!all && random_next(seed) % 2)
			continue;
		zero(f->fd, from, end);
		losses->lost_bytes += end - from;
	}
}

static void lose(const struct file *f, bool all, uint64_t *seed, struct power_losses *losses)
{
	struct stat st;
	if (!f->n || fstat(f->fd, &st) < 0 || !st.st_nlink)
		return;
	int flags = fcntl(f->fd, F_GETFL);
	if (flags < 0 || fcntl(f->fd, F_SETFL, flags & ~(O_DIRECT | O_APPEND)) < 0)
		return;
	losses->files++;
	for (unsigned i = 0; i < f->n; i++)
		lose_range(f, f->ranges[i], all, seed, losses);
	if ((uint64_t)st.st_size > f->safe && (all || random_next(seed) % 2))
		(void)!ftruncate(f->fd, (off_t)f->safe);
}

void files_lose(bool all, uint64_t *seed, struct power_losses *losses)
{
	for (int i = 0; i < FILES_MAX; i++)
		if (files[i].fd)
			lose(&files[i], all, seed, losses);
}

void files_forget(void)
{
	for (int i = 0; i < FILES_MAX; i++)
		if (files[i].fd)
			drop(&files[i]);
}
