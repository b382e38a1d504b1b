/* The disk of the simulator: operations, which complete in random order when the disk is polled and fail at the rates that the
 * run sets, and the handles that they work on. What they change, and what of it a power cut leaves: disk_image.c. */
#include "base/bytes.h"
#include "base/clock.h"
#include "disk_image.h"
#include "rng.h"
#include "store/disk.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

enum { HANDLES = 512, PENDING = 4096, POLL_MAX = 8 };

struct handle {
	struct inode *inode;
	bool lock;
};

struct disk {
	struct list pending;
	unsigned n;
	int root; /* handle; -1: none */
};

static struct {
	struct handle handles[HANDLES];
	struct disk_faults faults;
	struct disk_counts counts;
	enum disk_lie lie;
	struct disk *contexts[16];
	bool killed;
} sim;

/* ---- reset, faults ----------------------------------------------------------------------------------------------- */

void disk_sim_reset(void)
{
	inodes_reset();
	memset(&sim, 0, sizeof(sim));
}

struct disk_faults disk_sim_faults(const struct disk_faults *faults)
{
	struct disk_faults was = sim.faults;
	sim.faults = *faults;
	return was;
}

const struct disk_counts *disk_sim_counts(void)
{
	return &sim.counts;
}

void disk_sim_lie(enum disk_lie lie)
{
	sim.lie = lie;
}

/* ---- handles ----------------------------------------------------------------------------------------------------- */

static int handle_new(struct inode *inode)
{
	for (int i = 3; i < HANDLES; i++) {
		if (sim.handles[i].inode)
			continue;
		sim.handles[i] = (struct handle){.inode = inode};
		return i;
	}
	return -EMFILE;
}

static struct inode *inode_of(int handle)
{
	SIM_CHECK(handle > 0 && handle < HANDLES && sim.handles[handle].inode, "handle %d is not open", handle);
	return sim.handles[handle].inode;
}

/* ---- what operations do ------------------------------------------------------------------------------------------ */

static int64_t do_mkdir(const struct disk_op *op)
{
	struct inode *dir = inode_of(op->dir);
	if (names_find(&dir->now_names, op->name))
		return -EEXIST;
	names_change(dir, NULL, op->name, inode_new(true));
	return 0;
}

static int64_t do_open(const struct disk_op *op)
{
	struct inode *dir = inode_of(op->dir);
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
	return handle_new(found);
}

static int64_t do_write(const struct disk_op *op, uint64_t len)
{
	struct inode *inode = inode_of(op->file);
	if (op->offset + len > inode->now.len)
		image_resize(&inode->now, op->offset + len);
	if (len)
		memcpy(inode->now.data + op->offset, op->buf, len);
	inode->mtime = clock_wall();
	return (int64_t)len;
}

static int64_t do_read(const struct disk_op *op)
{
	const struct image *image = &inode_of(op->file)->now;
	if (op->offset >= image->len)
		return 0;
	uint64_t n = min_u64(op->len, image->len - op->offset);
	memcpy(op->buf, image->data + op->offset, n);
	return (int64_t)n;
}

static int64_t do_fsync(const struct disk_op *op)
{
	struct inode *inode = inode_of(op->file);
	if (sim.lie != (inode->dir ? LIE_FSYNC_DIR : LIE_FSYNC_FILE))
		inode_confirm(inode);
	return 0;
}

/* Some file systems cannot. */
static int64_t do_allocate(const struct disk_op *op)
{
	struct image *image = &inode_of(op->file)->now;
	if (rng_chance(world_rng(), 30))
		return -EOPNOTSUPP;
	if (op->len > image->len)
		image_resize(image, op->len);
	return 0;
}

static int64_t do_link(const struct disk_op *op)
{
	struct inode *from = names_find(&inode_of(op->dir)->now_names, op->name);
	struct inode *dir2 = inode_of(op->dir2);
	if (!from)
		return -ENOENT;
	if (names_find(&dir2->now_names, op->name2))
		return -EEXIST;
	names_change(dir2, NULL, op->name2, from);
	sim.counts.shared += op->dir != op->dir2;
	return 0;
}

static int64_t do_rename(const struct disk_op *op)
{
	struct inode *dir = inode_of(op->dir);
	struct inode *from = names_find(&dir->now_names, op->name);
	SIM_CHECK(dir == inode_of(op->dir2), "renames between directories are not simulated");
	if (!from)
		return -ENOENT;
	names_change(dir, op->name, op->name2, from);
	return 0;
}

static int64_t do_unlink(const struct disk_op *op)
{
	struct inode *dir = inode_of(op->dir);
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
	inode_of(op->file);
	if (sim.handles[op->file].lock)
		sim.handles[op->file].inode->locked = false;
	sim.handles[op->file] = (struct handle){0};
	return 0;
}

static int64_t effect(const struct disk_op *op)
{
	switch (op->kind) {
	case DISK_MKDIR:
		return do_mkdir(op);
	case DISK_OPEN:
		return do_open(op);
	case DISK_WRITE:
		return do_write(op, op->len);
	case DISK_READ:
		return do_read(op);
	case DISK_FSYNC:
		return do_fsync(op);
	case DISK_TRUNCATE:
		image_resize(&inode_of(op->file)->now, op->offset);
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
	if (result < 0 || !(makes || takes) || !fault(sim.faults.answer))
		return result;
	sim.counts.answers++;
	return makes ? -EEXIST : -ENOENT;
}

static int64_t perform(const struct disk_op *op)
{
	sim.counts.operations++;
	int64_t rc = 0;
	if (op->kind == DISK_FSYNC && fault(sim.faults.fsync)) {
		inode_tear(inode_of(op->file));
		rc = -EIO;
	} else if (op->kind == DISK_WRITE && fault(sim.faults.no_space)) {
		do_write(op, rng_below(world_rng(), op->len + 1));
		rc = -ENOSPC;
	} else if (op->kind == DISK_ALLOCATE && fault(sim.faults.no_space)) {
		rc = -ENOSPC;
	} else if (op->kind == DISK_LINK && op->dir != op->dir2 && fault(sim.faults.link)) {
		rc = -EMLINK;
	} else if (op->kind != DISK_CLOSE && fault(sim.faults.error)) {
		rc = -EIO;
	}
	sim.counts.errors += rc != 0;
	return rc ? rc : answered(op, effect(op));
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

int disk_new(const char *root_path, struct disk **out, int *root, struct err *err)
{
	struct inode *inode = root_path ? inode_walk(root_path) : NULL;
	sim.killed = false;
	if (root_path && (!inode || !inode->dir))
		return err_set(err, -ENOENT, "%s: no such directory", root_path);
	struct disk *d = calloc(1, sizeof(*d));
	SIM_CHECK(d, "memory");
	list_init(&d->pending);
	for (size_t i = 0; i < sizeof(sim.contexts) / sizeof(sim.contexts[0]); i++) {
		if (!sim.contexts[i]) {
			sim.contexts[i] = d;
			break;
		}
	}
	d->root = inode && root ? handle_new(inode) : -1;
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
	op->result = perform(op);
	op->done(op);
}

void disk_free(struct disk *d)
{
	if (!d)
		return;
	while (d->n && !sim.killed)
		run_one(d);
	for (size_t i = 0; i < sizeof(sim.contexts) / sizeof(sim.contexts[0]); i++)
		if (sim.contexts[i] == d)
			sim.contexts[i] = NULL;
	if (d->root >= 0 && !sim.killed)
		sim.handles[d->root] = (struct handle){0};
	free(d);
}

void disk_submit(struct disk *d, struct disk_op *op)
{
	SIM_CHECK(d->n < PENDING, "the queue is not bounded");
	op->result = 0;
	list_push(&d->pending, &op->link);
	d->n++;
}

int disk_poll(struct disk *d, uint64_t deadline)
{
	uint64_t most = deadline ? 1 : rng_below(world_rng(), POLL_MAX);
	int n = 0;
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

int disk_stat_at(struct disk *d, int dir, const char *name, struct disk_stat *st)
{
	(void)d;
	const struct inode *inode = names_find(&inode_of(dir)->now_names, name);
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

int disk_list(struct disk *d, int dir, int (*fn)(void *arg, const char *name), void *arg)
{
	(void)d;
	struct names copy = {0};
	names_copy(&copy, &inode_of(dir)->now_names);
	int rc = 0;
	for (size_t i = 0; !rc && i < copy.n; i++)
		rc = fn(arg, copy.list[i].name);
	free(copy.list);
	return rc;
}

int disk_lock(struct disk *d, int dir, const char *name)
{
	(void)d;
	struct inode *parent = inode_of(dir);
	struct inode *inode = names_find(&parent->now_names, name);
	if (!inode) {
		inode = inode_new(false);
		names_change(parent, NULL, name, inode);
	}
	if (inode->locked)
		return -EWOULDBLOCK;
	int handle = handle_new(inode);
	if (handle < 0)
		return handle;
	inode->locked = sim.handles[handle].lock = true;
	return handle;
}

/* One daemon is all there is: who would share has it alone. */
int disk_share(struct disk *d, int dir, const char *name)
{
	return disk_lock(d, dir, name);
}

int disk_space(struct disk *d, int dir, uint64_t *free_bytes, uint64_t *total_bytes)
{
	(void)d;
	(void)dir;
	*free_bytes = *total_bytes = 1ull << 40;
	return 0;
}

/* ---- crashes ----------------------------------------------------------------------------------------------------- */

/* A submitted operation may have reached the kernel or not, a write also in part. */
static void half_done(struct disk *d)
{
	for (struct list *node; (node = list_pop(&d->pending));) {
		struct disk_op *op = list_entry(node, struct disk_op, link);
		d->n--;
		if (op->kind == DISK_CLOSE || !rng_chance(world_rng(), 50))
			continue;
		if (op->kind == DISK_WRITE)
			do_write(op, rng_below(world_rng(), op->len + 1));
		else
			effect(op);
	}
}

void disk_sim_kill(void)
{
	sim.killed = true;
	for (size_t i = 0; i < sizeof(sim.contexts) / sizeof(sim.contexts[0]); i++)
		if (sim.contexts[i])
			half_done(sim.contexts[i]);
	inodes_unlock();
	memset(sim.handles, 0, sizeof(sim.handles));
}

void disk_sim_power_cut(void)
{
	disk_sim_kill();
	sim.counts.power_cuts++;
	inodes_cut(&sim.counts);
}
