/* Deletion: removes one directory that is in the trash, file by file, the manifest first. Freeing blocks keeps a file
 * system busy (0.2 s per GiB). So a pause follows each file, and grows with its size: short while nobody writes, long
 * while a commit does. */
#ifndef CKPTD_UPKEEP_GC_DELETE_H
#define CKPTD_UPKEEP_GC_DELETE_H

#include "store/disk/disk.h"
#include "store/manage/trash.h"

enum sweep_state {
	SWEEP_IDLE = 0,
	SWEEP_OPEN,
	SWEEP_MANIFEST,
	SWEEP_UNLINK,
	SWEEP_PAUSE,
	SWEEP_CLOSE,
	SWEEP_RMDIR,
};

/* Nanoseconds per GiB. */
#define SWEEP_PACE_ALONE 200000000ull
#define SWEEP_PACE_BESIDE 2000000000ull

struct sweep {
	/* set by the caller */
	struct disk *disk;
	int job_dir;
	const char *name;
	const struct trash_file *files;
	size_t nfiles;
	uint64_t (*pace)(void *arg); /* now */
	void (*done)(struct sweep *s);
	void *arg;

	/* to be read */
	enum sweep_state state;
	int rc; /* -ENOTEMPTY: something is left */
	uint64_t freed;

	/* private */
	int dir;
	size_t at;
	uint64_t paid_ns;
	bool stop;
	struct disk_op op;
};

void sweep_start(struct sweep *s);
/* Goes on after a pause; each tick. */
void sweep_tick(struct sweep *s);
/* Ends it after the operation that is in flight; the rest stays in the trash. */
void sweep_stop(struct sweep *s);

#endif
