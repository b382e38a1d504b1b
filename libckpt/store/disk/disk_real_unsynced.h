/* What no fsync has made durable yet: files with bytes of which that holds, and directories with names. Private to disk_real_power.c, which
 * holds its lock around each of these. Every instant has a number: a later one has a higher one. */
#ifndef CKPT_STORE_DISK_REAL_UNSYNCED_H
#define CKPT_STORE_DISK_REAL_UNSYNCED_H

#include "store/disk/disk.h"
#include "store/disk/power.h"

#include <sys/stat.h>

/* What a file or a directory is, whatever its name. */
struct place {
	dev_t dev;
	ino_t ino;
};

static inline struct place place_of(const struct stat *st)
{
	return (struct place){st->st_dev, st->st_ino};
}

static inline bool place_is(struct place p, const struct stat *st)
{
	return p.dev == st->st_dev && p.ino == st->st_ino;
}

/* ---- disk_real_unsynced_files.c */

void files_created(int file);
void files_written(int file, uint64_t offset, uint64_t len, uint64_t now);
void files_truncated(int file, uint64_t size);
/* An fsync begins; one that began at `from` has succeeded. */
void files_syncing(int file, uint64_t now);
void files_synced(int file, uint64_t from);
/* Its last name goes, or a handle of it: no descriptor is kept for longer than there is something to lose. */
void files_unlinking(int dir, const char *name);
void files_closing(int file);
void files_lose(bool all, uint64_t *seed, struct power_losses *losses);
void files_forget(void);

/* ---- disk_real_unsynced_names.c */

/* The name now is that of what was made. */
void names_added(int dir, const char *name, uint64_t now);
/* It is about to be removed, or replaced by a rename; then whether it was. */
void names_changing(const struct disk_op *op);
void names_changed(const struct disk_op *op, bool done, uint64_t now);
void names_synced(int dir, uint64_t from);
void names_lose(bool all, uint64_t *seed, struct power_losses *losses);
void names_forget(void);

#endif
