#include "checkpoint/store_lock.h"

#include "base/log.h"
#include "store/disk/denied.h"
#include "store/disk/disk.h"
#include "store/read/repo.h"

static int lock_file(const struct store_lock *lock, struct disk *disk, int root)
{
	return (lock->shared ? disk_share : disk_lock)(disk, root, REPO_LOCK);
}

int store_lock_take(struct store_lock *lock, bool shared, struct disk *disk, int root, const char *path,
		    struct err *err)
{
	*lock = (struct store_lock){.disk = disk, .handle = STORE_LOCK_NONE, .shared = shared};
	int handle = lock_file(lock, disk, root);
	if (handle == -EWOULDBLOCK)
		return err_set(err, handle, "another ckptd%s has the store %s (it holds %s/%s)",
			       shared ? ", which is in no cluster," : "", path, path, REPO_LOCK);
	if (handle < 0) {
		err_set(err, handle, "cannot lock %s/%s: %s", path, REPO_LOCK, err_name(handle));
		return denied_dir(disk, root, handle, err);
	}
	lock->handle = handle;
	return 0;
}

int store_lock_look(const struct store_lock *lock, struct disk *disk, int root)
{
	if (lock->handle < 0 || disk_lock_stands(disk, root, REPO_LOCK, lock->handle))
		return STORE_LOCK_NONE;
	int handle = lock_file(lock, disk, root);
	return handle >= 0 || handle == -EWOULDBLOCK ? handle : STORE_LOCK_NONE;
}

void store_lock_found(struct store_lock *lock, int found, const char *path)
{
	if (found == -EWOULDBLOCK) {
		lock->is_lost = true;
	} else if (found >= 0) {
		store_lock_give(lock);
		lock->handle = found;
		log_warn("somebody has deleted %s/%s: it is locked anew. It keeps a second daemon out of the store; "
			 "leave it there, also when no daemon runs",
			 path, REPO_LOCK);
	}
}

void store_lock_give(struct store_lock *lock)
{
	if (lock->handle >= 0)
		disk_close_file(lock->disk, lock->handle);
	lock->handle = STORE_LOCK_NONE;
}
