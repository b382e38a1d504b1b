#include "store/disk/disk_real_unsynced.h"

#include "base/cleanup.h"
#include "base/random.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHANGES_MAX = 512, DIRS_MAX = 64, SAVED_TOTAL_MAX = 16 << 20 };

/* One of a directory: `add` is the name now of what `what` says; `remove` is one no longer. A rename has both, and is atomic. */
struct change {
	struct list link;
	const struct disk_op *op; /* that is under way; NULL: it is done */
	uint64_t at;
	char remove[NAME_MAX + 1], add[NAME_MAX + 1]; /* "": none */
	struct place what;
	bool fixed;     /* what was removed or replaced cannot be brought back */
	uint8_t *saved; /* what was removed or replaced; NULL: nothing was */
	size_t len;
	mode_t mode;
};

struct dir {
	struct list link;
	struct place place;
	int fd; /* of its own */
	struct list changes;
};

/* In the order in which they came to be known. */
static struct {
	struct list dirs;
	unsigned ndirs, nchanges;
	size_t saved;
} names;

/* ---- the table ----------------------------------------------------------------------------------------------------- */

static struct list *dirs(void)
{
	if (!names.dirs.next)
		list_init(&names.dirs);
	return &names.dirs;
}

static void change_drop(struct change *c)
{
	list_remove(&c->link);
	names.nchanges--;
	names.saved -= c->len;
	free(c->saved);
	free(c);
}

static void dir_drop(struct dir *d)
{
	for (struct list *link; (link = d->changes.next) != &d->changes;)
		change_drop(list_entry(link, struct change, link));
	list_remove(&d->link);
	names.ndirs--;
	close(d->fd);
	free(d);
}

static struct dir *find(const struct stat *st)
{
	list_for(it, dirs()) {
		struct dir *d = list_entry(it, struct dir, link);
		if (place_is(d->place, st))
			return d;
	}
	return NULL;
}

/* All of the oldest one counts as durable, where there are too many. */
static struct dir *add_dir(int fd, const struct stat *st)
{
	struct dir *d = calloc(1, sizeof(*d));
	if (!d || (d->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3)) < 0) {
		free(d);
		return NULL;
	}
	if (names.ndirs == DIRS_MAX)
		dir_drop(list_entry(dirs()->next, struct dir, link));
	d->place = place_of(st);
	list_init(&d->changes);
	list_push(dirs(), &d->link);
	names.ndirs++;
	return d;
}

static struct change *add_change(int dir, uint64_t now)
{
	struct stat st;
	if (fstat(dir, &st) < 0)
		return NULL;
	if (names.nchanges == CHANGES_MAX)
		dir_drop(list_entry(dirs()->next, struct dir, link));
	struct dir *d = find(&st);
	if (!d && !(d = add_dir(dir, &st)))
		return NULL;
	struct change *c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->at = now;
	list_push(&d->changes, &c->link);
	names.nchanges++;
	return c;
}

static void set_name(char dst[NAME_MAX + 1], const char *name)
{
	snprintf(dst, NAME_MAX + 1, "%s", name);
}

/* ---- what is noted ------------------------------------------------------------------------------------------------- */

void names_added(int dir, const char *name, uint64_t now)
{
	struct stat st;
	struct change *c = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? NULL : add_change(dir, now);
	if (!c)
		return;
	set_name(c->add, name);
	c->what = place_of(&st);
}

static bool read_all(int fd, uint8_t *dst, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = pread(fd, dst + at, len - at, (off_t)at);
		if (n <= 0)
			return false;
		at += (size_t)n;
	}
	return true;
}

/* What is about to go. False: it could not be brought back. */
static bool save(struct change *c, int dir, const char *name)
{
	struct stat st;
	AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode); /* an empty one, of which nobody misses anything */
	size_t len = (size_t)st.st_size;
	if (len > POWER_SAVED_MAX || names.saved + len > SAVED_TOTAL_MAX || !(c->saved = malloc(len + 1)))
		return false;
	c->len = len;
	c->mode = st.st_mode & 07777;
	names.saved += len;
	return read_all(fd, c->saved, len);
}

static bool crosses(const struct disk_op *op)
{
	struct stat from, to;
	return op->kind == DISK_RENAME &&
	       (fstat(op->dir, &from) < 0 || fstat(op->dir2, &to) < 0 || !place_is(place_of(&from), &to));
}

void names_changing(const struct disk_op *op)
{
	struct stat st;
	bool renames = op->kind == DISK_RENAME;
	if (crosses(op) || fstatat(op->dir, op->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	struct change *c = add_change(op->dir, 0);
	if (!c)
		return;
	c->op = op;
	c->what = place_of(&st);
	set_name(c->remove, op->name);
	if (renames)
		set_name(c->add, op->name2);
	c->fixed = !save(c, op->dir, renames ? op->name2 : op->name);
}

static struct change *find_change(const struct disk_op *op, struct dir **of)
{
	list_for(it, dirs()) {
		*of = list_entry(it, struct dir, link);
		list_for(link, &(*of)->changes) {
			struct change *c = list_entry(link, struct change, link);
			if (c->op == op)
				return c;
		}
	}
	return NULL;
}

static void forget_dir(int dir)
{
	struct stat st;
	struct dir *d = fstat(dir, &st) < 0 ? NULL : find(&st);
	if (d)
		dir_drop(d);
}

/* They count as durable, up to and with this one. */
static void drop_until(struct dir *d, const struct change *last)
{
	bool was_last = false;
	while (!was_last) {
		struct change *c = list_entry(d->changes.next, struct change, link);
		was_last = c == last;
		change_drop(c);
	}
}

void names_changed(const struct disk_op *op, bool done, uint64_t now)
{
	struct dir *d;
	struct change *c = find_change(op, &d);
	if (!c && !done)
		return;
	if (!c) {
		forget_dir(op->dir);
		if (op->kind == DISK_RENAME)
			forget_dir(op->dir2);
		return;
	}
	c->op = NULL;
	c->at = now;
	if (!done)
		change_drop(c);
	else if (c->fixed)
		drop_until(d, c);
}

void names_synced(int dir, uint64_t from)
{
	struct stat st;
	struct dir *d = fstat(dir, &st) < 0 ? NULL : find(&st);
	if (!d)
		return;
	list_for_safe(it, &d->changes) {
		struct change *c = list_entry(it, struct change, link);
		if (!c->op && c->at < from)
			change_drop(c);
	}
	if (list_empty(&d->changes))
		dir_drop(d);
}

/* ---- the loss ------------------------------------------------------------------------------------------------------ */

static bool bring_back(const struct dir *d, const char *name, const struct change *c)
{
	AUTO_CLOSE int fd = openat(d->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, c->mode);
	if (fd < 0)
		return false;
	for (size_t at = 0; at < c->len;) {
		ssize_t n = pwrite(fd, c->saved + at, c->len - at, (off_t)at);
		if (n <= 0)
			return false;
		at += (size_t)n;
	}
	return true;
}

/* Not every file system can refuse by itself to replace something. */
static bool rename_back(const struct dir *d, const char *from, const char *to)
{
	struct stat st;
	if (!renameat2(d->fd, from, d->fd, to, RENAME_NOREPLACE))
		return true;
	return errno == EINVAL && fstatat(d->fd, to, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT &&
	       !renameat(d->fd, from, d->fd, to);
}

/* False: it stays as it is. */
static bool undo(const struct dir *d, const struct change *c)
{
	struct stat st;
	if (!c->add[0])
		return c->saved && bring_back(d, c->remove, c);
	if (fstatat(d->fd, c->add, &st, AT_SYMLINK_NOFOLLOW) < 0 || !place_is(c->what, &st))
		return false;
	if (!c->remove[0])
		return !unlinkat(d->fd, c->add, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0);
	if (!rename_back(d, c->add, c->remove))
		return false;
	if (c->saved)
		bring_back(d, c->add, c);
	return true;
}

static void lose(const struct dir *d, bool all, uint64_t *seed, struct power_losses *losses)
{
	uint64_t n = 0;
	list_for(it, &d->changes)
		n++;
	uint64_t keep = all ? 0 : random_next(seed) % (n + 1);
	losses->names += n;
	for (struct list *it = d->changes.prev; n > keep; it = it->prev, n--)
		losses->lost_names += undo(d, list_entry(it, struct change, link));
}

void names_lose(bool all, uint64_t *seed, struct power_losses *losses)
{
	list_for(it, dirs())
		lose(list_entry(it, struct dir, link), all, seed, losses);
}

void names_forget(void)
{
	while (!list_empty(dirs()))
		dir_drop(list_entry(dirs()->next, struct dir, link));
}
