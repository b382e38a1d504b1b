/* The parts of the simulated disk: operations and handles (disk_sim.c), and what ends them (disk_crash.c). For these alone. */
#ifndef CKPT_SIM_DISK_PRIVATE_H
#define CKPT_SIM_DISK_PRIVATE_H

#include "disk_image.h"
#include "store/disk/disk.h"
#include "world.h"

enum { HANDLES = 512, PENDING = 4096, CONTEXTS = 32 };

struct handle {
	struct inode *inode;
	struct disk *owner;
	bool lock;
};

struct disk {
	struct list pending;
	unsigned n;
	int root; /* handle; -1: none */
	bool killed;
	struct disk_fault fault;
	struct disk_op *last; /* of one that was killed: who waits for it is told that it failed */
};

struct disk_world {
	struct handle handles[HANDLES];
	struct disk_faults faults;
	struct disk_counts counts;
	enum disk_lie lie;
	struct disk *contexts[CONTEXTS];
	disk_watch_fn *watch;
};

extern struct disk_world disk_world;

/* What an operation does when it is done, and what a write does of which only so much is. */
int64_t disk_effect(struct disk *d, const struct disk_op *op);
int64_t disk_write_part(const struct disk_op *op, uint64_t len);

#endif
