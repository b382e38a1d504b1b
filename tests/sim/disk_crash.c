/* How processes and machines end that use the simulated disk, and who looks on. */
#include "disk_private.h"
#include "rng.h"
#include "store/disk/power.h"

#include <string.h>

/* A submitted operation may have reached the kernel or not, a write also in part. */
static void half_done(struct disk *d)
{
	for (struct list *node; (node = list_pop(&d->pending));) {
		struct disk_op *op = list_entry(node, struct disk_op, link);
		d->n--;
		if (op->kind == DISK_CLOSE || !rng_chance(world_rng(), 50))
			continue;
		if (op->kind == DISK_WRITE)
			disk_write_part(op, rng_below(world_rng(), op->len + 1));
		else
			disk_effect(d, op);
	}
}

void disk_sim_kill_one(struct disk *d)
{
	half_done(d);
	for (int i = 0; i < HANDLES; i++) {
		if (disk_world.handles[i].owner != d)
			continue;
		if (disk_world.handles[i].lock)
			disk_world.handles[i].inode->locked = false;
		disk_world.handles[i] = (struct handle){0};
	}
	d->killed = true;
}

void disk_sim_kill(void)
{
	for (size_t i = 0; i < CONTEXTS; i++) {
		if (!disk_world.contexts[i] || disk_world.contexts[i]->killed)
			continue;
		half_done(disk_world.contexts[i]);
		disk_world.contexts[i]->killed = true;
	}
	inodes_unlock();
	memset(disk_world.handles, 0, sizeof(disk_world.handles));
}

void disk_sim_power_cut(void)
{
	disk_sim_kill();
	disk_world.counts.power_cuts++;
	inodes_cut(&disk_world.counts);
}

/* The fault on purpose: nothing to be remembered, and nobody here causes it. */
void power_remember(bool on)
{
	(void)on;
}

void power_cut(struct disk *d, uint64_t seed, struct power_losses *losses)
{
	(void)d;
	(void)seed;
	*losses = (struct power_losses){0};
}

/* ---- watching ------------------------------------------------------------------------------------------------------ */

void disk_sim_watch(disk_watch_fn *fn)
{
	disk_world.watch = fn;
}

bool disk_sim_has_lock(const struct disk *d, const struct inode *inode)
{
	for (int i = 0; i < HANDLES; i++)
		if (disk_world.handles[i].inode == inode && disk_world.handles[i].owner == d &&
		    disk_world.handles[i].lock)
			return true;
	return false;
}
