/* Store lock: one daemon, or those of one cluster, write in a store. The lock is of a file in it, which people delete who take it for a
 * leftover; then another daemon would be let in. So it is looked at again and again: a file that is gone is made and locked anew, and
 * a daemon that finds another one in the store ends. Not thread-safe, but for store_lock_look(). */
#ifndef CKPTD_CHECKPOINT_STORE_LOCK_H
#define CKPTD_CHECKPOINT_STORE_LOCK_H

#include "base/err.h"

#include <stdbool.h>

struct disk;

enum { STORE_LOCK_NONE = -1 };

struct store_lock {
	struct disk *disk; /* of the handle */
	int handle;        /* of the file; STORE_LOCK_NONE: there is no store */
	bool shared;       /* with the other daemons of a cluster */
	bool is_lost;      /* another daemon has the store */
};

/* Of the open directory of the store; path: for what is said. -EWOULDBLOCK: another daemon has it. */
int store_lock_take(struct store_lock *lock, bool shared, struct disk *disk, int root, const char *path,
		    struct err *err);
/* On any thread, with a copy of the lock and a handle of the same store: the handle of the lock made anew; STORE_LOCK_NONE: it stands as it
 * is, or that cannot be told; -EWOULDBLOCK: it is gone, and another daemon has the store. */
int store_lock_look(const struct store_lock *lock, struct disk *disk, int root);
/* What that was, on the thread that owns the lock. */
void store_lock_found(struct store_lock *lock, int found, const char *path);
void store_lock_give(struct store_lock *lock);

#endif
