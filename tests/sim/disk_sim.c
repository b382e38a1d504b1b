/* The disk of the simulator: operations, which complete in random order when the disk is polled and fail at the rates that the
 * run sets, and the handles that they work on. What they change, and what of it a power cut leaves: disk_image.c. */
#include "base/bytes.h"
#include "base/clock.h"
#include "disk_private.h"
#include "rng.h"
#include "store/disk/disk.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

enum { POLL_MAX = 8 };

struct disk_world disk_world;

/* ---- reset, faults ----------------------------------------------------------------------------------------------- */

void disk_sim_reset(void)
{
	inodes_reset();
	memset(&disk_world, 0, sizeof(disk_world));
}

struct disk_faults disk_sim_faults(const struct disk_faults *faults)
{
	struct disk_faults was = disk_world.faults;
	disk_world.faults = *faults;
	return was;
}

const struct disk_counts *disk_sim_counts(void)
{
	return &disk_world.counts;
}

void disk_sim_lie(enum disk_lie lie)
{
	disk_world.lie = lie;
}

/* ---- handles ----------------------------------------------------------------------------------------------------- */

static int handle_new(struct disk *d, struct inode *inode)
{
	for (int i = 3; i < HANDLES; i++) {
		if (disk_world.handles[i].inode)
			continue;
		disk_world.handles[i] = (struct handle){.inode = inode, .owner = d};
		return i;
	}
	return -EMFILE;
}

struct inode *disk_sim_inode(int handle)
{
	SIM_CHECK(handle > 0 && handle < HANDLES && disk_world.handles[handle].inode, "handle %d is not open", handle);
	return disk_world.handles[handle].inode;
}

/* ---- what operations do ------------------------------------------------------------------------------------------ */

static int64_t do_mkdir(const struct disk_op *op)
{
	struct inode *dir = disk_sim_inode(op->dir);
	if (names_find(&dir->now_names, op->name))
		return -EEXIST;
	names_change(dir, NULL, op->name, inode_new(true));
	return 0;
}

static int64_t do_open(struct disk *d, const struct disk_op *op)
{
	struct inode *dir = disk_sim_inode(op->dir);
	struct inode *found = names_find(&dir->now_names, op->name);
	if (op->flags & DISK_CREATE) {
		if (found)
			return -EEXIST;
		found = inode_new(false);
		names_change(dir, NULL, op->name, found);
	}
	if (!found)
		return -ENOENT;
	if ((op->flags & DISK_DIR) && !found->dir)
		return -ENOTDIR;
	return handle_new(d, found);
}

int64_t disk_write_part(const struct disk_op *op, uint64_t len)
{
	struct inode *inode = disk_sim_inode(op->file);
	if (op->offset + len > inode->now.len)
		image_resize(&inode->now, op->offset + len);
	if (len)
		memcpy(inode->now.data + op->offset, op->buf, len);
	inode->mtime = clock_wall();
	return (int64_t)len;
}

static int64_t do_read(const struct disk_op *op)
{
	const struct image *image = &disk_sim_inode(op->file)->now;
	if (op->offset >= image->len)
		return 0;
	uint64_t n = min_u64(op->len, image->len - op->offset);
	memcpy(op->buf, image->data + op->offset, n);
	return (int64_t)n;
}

static int64_t do_fsync(const struct disk_op *op)
{
	struct inode *inode = disk_sim_inode(op->file);
	if (disk_world.lie != (inode->dir ? LIE_FSYNC_DIR : LIE_FSYNC_FILE))
		inode_confirm(inode);
	return 0;
}

/* Some file systems cannot. */
static int64_t do_allocate(const struct disk_op *op)
{
	struct image *image = &disk_sim_inode(op->file)->now;
	if (rng_chance(world_rng(), 30))
		return -EOPNOTSUPP;
	if (op->len > image->len)
		image_resize(image, op->len);
	return 0;
}

static int64_t do_link(const struct disk_op *op)
{
	struct inode *from = names_find(&disk_sim_inode(op->dir)->now_names, op->name);
	struct inode *dir2 = disk_sim_inode(op->dir2);
	if (!from)
		return -ENOENT;
	if (names_find(&dir2->now_names, op->name2))
		return -EEXIST;
	names_change(dir2, NULL, op->name2, from);
	disk_world.counts.shared += op->dir != op->dir2;
	return 0;
}

static int64_t do_rename(const struct disk_op *op)
{
	struct inode *dir = disk_sim_inode(op->dir);
	struct inode *from = names_find(&dir->now_names, op->name);
	SIM_CHECK(dir == disk_sim_inode(op->dir2), "renames between directories are not simulated");
	const struct inode *over = names_find(&dir->now_names, op->name2);
	if (!from)
		return -ENOENT;
	if (over && over->dir && over->now_names.n)
		return -ENOTEMPTY;
	names_change(dir, op->name, op->name2, from);
	return 0;
}

static int64_t do_unlink(const struct disk_op *op)
{
	struct inode *dir = disk_sim_inode(op->dir);
	struct inode *found = names_find(&dir->now_names, op->name);
	if (!found)
		return -ENOENT;
	if (op->kind == DISK_RMDIR && found->now_names.n)
		return -ENOTEMPTY;
	names_change(dir, op->name, NULL, NULL);
	return 0;
}

static int64_t do_close(const struct disk_op *op)
{
	disk_sim_inode(op->file);
	if (disk_world.handles[op->file].lock)
		disk_world.handles[op->file].inode->locked = false;
	disk_world.handles[op->file] = (struct handle){0};
	return 0;
}

int64_t disk_effect(struct disk *d, const struct disk_op *op)
{
	if (disk_world.watch)
		disk_world.watch(d, op);
	switch (op->kind) {
	case DISK_MKDIR:
		return do_mkdir(op);
	case DISK_OPEN:
		return do_open(d, op);
	case DISK_WRITE:
		return disk_write_part(op, op->len);
	case DISK_READ:
		return do_read(op);
	case DISK_FSYNC:
		return do_fsync(op);
	case DISK_TRUNCATE:
		image_resize(&disk_sim_inode(op->file)->now, op->offset);
		return 0;
	case DISK_ALLOCATE:
		return do_allocate(op);
	case DISK_LINK:
		return do_link(op);
	case DISK_RENAME:
		return do_rename(op);
	case DISK_UNLINK:
	case DISK_RMDIR:
		return do_unlink(op);
	case DISK_CLOSE:
		return do_close(op);
	}
	return -ENOSYS;
}

static bool fault(unsigned per_thousand)
{
	return per_thousand && rng_below(world_rng(), 1000) < per_thousand;
}

/* What a server without memory says when it is asked for the same again. */
static int64_t answered(const struct disk_op *op, int64_t result)
{
	bool makes = op->kind == DISK_MKDIR || op->kind == DISK_LINK;
	bool takes = op->kind == DISK_RENAME || op->kind == DISK_UNLINK || op->kind == DISK_RMDIR;
	if (result < 0 || !(makes || takes) || !fault(disk_world.faults.answer))
		return result;
	disk_world.counts.answers++;
	return makes ? -EEXIST : -ENOENT;
}

static int64_t perform(struct disk *d, const struct disk_op *op)
{
	disk_world.counts.operations++;
	int64_t rc = 0;
	if (op->kind == DISK_FSYNC && fault(disk_world.faults.fsync)) {
		inode_tear(disk_sim_inode(op->file));
		rc = -EIO;
	} else if (op->kind == DISK_WRITE && fault(disk_world.faults.no_space)) {
		disk_write_part(op, rng_below(world_rng(), op->len + 1));
		rc = -ENOSPC;
	} else if (op->kind == DISK_ALLOCATE && fault(disk_world.faults.no_space)) {
		rc = -ENOSPC;
	} else if (op->kind == DISK_LINK && op->dir != op->dir2 && fault(disk_world.faults.link)) {
		rc = -EMLINK;
	} else if (op->kind != DISK_CLOSE && fault(disk_world.faults.error)) {
		rc = -EIO;
	}
	disk_world.counts.errors += rc != 0;
	return rc ? rc : answered(op, disk_effect(d, op));
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

int disk_new(const char *root_path, struct disk **out, int *root, struct err *err)
{
	struct inode *inode = root_path ? inode_walk(root_path) : NULL;
	if (root_path && (!inode || !inode->dir))
		return err_set(err, -ENOENT, "%s: no such directory", root_path);
	struct disk *d = calloc(1, sizeof(*d));
	SIM_CHECK(d, "memory");
	list_init(&d->pending);
	size_t at = 0;
	while (at < CONTEXTS && disk_world.contexts[at])
		at++;
	SIM_CHECK(at < CONTEXTS, "more than %d contexts", CONTEXTS);
	disk_world.contexts[at] = d;
	d->root = inode && root ? handle_new(d, inode) : -1;
	if (root)
		*root = d->root;
	*out = d;
	return 0;
}

static void run_one(struct disk *d)
{
	struct list *node = d->pending.next;
	for (uint64_t skip = rng_below(world_rng(), d->n); skip--;)
		node = node->next;
	struct disk_op *op = list_entry(node, struct disk_op, link);
	list_remove(node);
	d->n--;
	op->result = disk_fault_of(&d->fault, op, clock_now());
	if (!op->result)
		op->result = perform(d, op);
	op->done(op);
}

void disk_break(struct disk *d, int rc, uint64_t until)
{
	d->fault = (struct disk_fault){.rc = rc, .until = until};
}

/* What is asked meanwhile is not answered before. */
void disk_hold(struct disk *d, uint64_t delay_ns, uint64_t until)
{
	d->fault = (struct disk_fault){.delay = delay_ns, .until = until};
}

void disk_let_go(struct disk *d)
{
	(void)d;
}

/* The simulator damages what it stores by itself (disk_faults). */
void disk_corrupt(struct disk *d, uint64_t until)
{
	d->fault = (struct disk_fault){.corrupts = true, .until = until};
}

uint64_t disk_hits(const struct disk *d)
{
	return d->fault.hits;
}

const char *disk_hit_file(const struct disk *d, uint64_t *at)
{
	*at = d->fault.at;
	return d->fault.file;
}

void disk_free(struct disk *d)
{
	if (!d)
		return;
	while (d->n)
		run_one(d);
	for (size_t i = 0; i < CONTEXTS; i++)
		if (disk_world.contexts[i] == d)
			disk_world.contexts[i] = NULL;
	if (d->root >= 0 && !d->killed)
		disk_world.handles[d->root] = (struct handle){0};
	free(d);
}

void disk_submit(struct disk *d, struct disk_op *op)
{
	SIM_CHECK(d->n < PENDING, "the queue is not bounded");
	op->result = 0;
	if (d->killed) { /* whoever asks may be gone before an answer could come */
		d->last = op;
		return;
	}
	list_push(&d->pending, &op->link);
	d->n++;
}

int disk_poll(struct disk *d, uint64_t deadline)
{
	if (d->killed && d->last) {
		d->last->result = -EIO;
		d->last->done(d->last);
		d->last = NULL;
		return 1;
	}
	uint64_t most = deadline ? 1 : rng_below(world_rng(), POLL_MAX);
	int n = 0;
	if (d->n && disk_fault_due(&d->fault, clock_now()))
		most = 0;
	for (; d->n && n < (int)most; n++)
		run_one(d);
	clock_advance(rng_below(world_rng(), 200000));
	return n;
}

const char *disk_engine(const struct disk *d)
{
	(void)d;
	return "sim";
}

int disk_event_fd(struct disk *d)
{
	(void)d;
	return -1;
}

unsigned disk_pending(const struct disk *d)
{
	return d->n;
}

int disk_register(struct disk *d, void *base, uint64_t size)
{
	(void)d;
	(void)base;
	(void)size;
	return -ENOMEM; /* the unregistered path */
}

int disk_pin(struct disk *d, int token, uint64_t end)
{
	(void)d;
	(void)token;
	(void)end;
	return -EINVAL; /* nothing was registered */
}

void disk_unregister(struct disk *d, int token)
{
	(void)d;
	(void)token;
}

static int stat_inode(const struct inode *inode, struct disk_stat *st)
{
	if (!inode)
		return -ENOENT;
	*st = (struct disk_stat){.is_dir = inode->dir,
				 .size = inode->now.len,
				 .links = 1,
				 .ino = (uint64_t)(uintptr_t)inode,
				 .mtime_ns = inode->mtime,
				 .blocks512 = inode->now.len / 512};
	return 0;
}

int disk_stat_at(struct disk *d, int dir, const char *name, struct disk_stat *st)
{
	if (d->killed)
		return -EIO;
	const struct inode *inode = disk_sim_inode(dir);
	return stat_inode(strcmp(name, ".") ? names_find(&inode->now_names, name) : inode, st);
}

int disk_stat_path(const char *path, struct disk_stat *st)
{
	return stat_inode(inode_walk(path), st);
}

int disk_chmod(struct disk *d, int dir, uint32_t mode)
{
	(void)dir;
	(void)mode;
	return d->killed ? -EIO : 0;
}

int disk_list(struct disk *d, int dir, int (*fn)(void *arg, const char *name), void *arg)
{
	if (d->killed)
		return -EIO;
	struct names copy = {0};
	names_copy(&copy, &disk_sim_inode(dir)->now_names);
	int rc = 0;
	for (size_t i = 0; !rc && i < copy.n; i++)
		rc = fn(arg, copy.list[i].name);
	free(copy.list);
	return rc;
}

int disk_lock(struct disk *d, int dir, const char *name)
{
	if (d->killed)
		return -EIO;
	struct inode *previous = disk_sim_inode(dir);
	struct inode *inode = names_find(&previous->now_names, name);
	if (!inode) {
		inode = inode_new(false);
		names_change(previous, NULL, name, inode);
	}
	if (inode->locked)
		return -EWOULDBLOCK;
	int handle = handle_new(d, inode);
	if (handle < 0)
		return handle;
	inode->locked = disk_world.handles[handle].lock = true;
	return handle;
}

bool disk_lock_stands(struct disk *d, int dir, const char *name, int lock)
{
	return d->killed || names_find(&disk_sim_inode(dir)->now_names, name) == disk_world.handles[lock].inode;
}

/* Who would share locks nothing: that somebody has it for himself is not simulated. */
int disk_share(struct disk *d, int dir, const char *name)
{
	if (d->killed)
		return -EIO;
	struct inode *previous = disk_sim_inode(dir);
	struct inode *inode = names_find(&previous->now_names, name);
	if (!inode) {
		inode = inode_new(false);
		names_change(previous, NULL, name, inode);
	}
	return handle_new(d, inode);
}

int disk_space(struct disk *d, int dir, uint64_t *free_bytes, uint64_t *total_bytes)
{
	(void)d;
	(void)dir;
	*free_bytes = *total_bytes = 1ull << 40;
	return 0;
}
