#include "control/directory_lock.h"

#include "base/log.h"
#include "cluster/room.h"
#include "control/coordinator_host.h"
#include "daemon.h"
#include "registry/room.h"
#include "store/disk/disk.h"

static int open_job(struct daemon *d, const char *job)
{
	struct disk_op make = {.kind = DISK_MKDIR, .dir = d->storage.root, .name = job};
	int rc = disk_do(d->storage.disk, &make);
	return rc && rc != -EEXIST ? rc : disk_open_at(d->storage.disk, d->storage.root, job, DISK_DIR);
}

int directory_lock_take(struct daemon *daemon, const char *job, int *directory_lock, struct err *err)
{
	*directory_lock = DIRECTORY_LOCK_NONE;
	if (!daemon->runtime.config.cluster || daemon->storage.root < 0)
		return 0;
	int dir = open_job(daemon, job);
	if (dir < 0)
		return err_set(err, dir, "cannot open %s/%s: %s", daemon->runtime.config.store, job, err_name(dir));
	int lock = disk_lock(daemon->storage.disk, dir, DIRECTORY_LOCK_FILE);
	disk_close_file(daemon->storage.disk, dir);
	if (lock == -EWOULDBLOCK)
		return err_set(err, -EBUSY,
			       "job '%s' is the business of another daemon of this store (it holds %s/%s/%s)", job,
			       daemon->runtime.config.store, job, DIRECTORY_LOCK_FILE);
	if (lock < 0)
		return err_set(err, lock, "cannot lock %s/%s/%s: %s", daemon->runtime.config.store, job,
			       DIRECTORY_LOCK_FILE, err_name(lock));
	*directory_lock = lock;
	return 0;
}

bool directory_lock_to_remove(struct daemon *daemon, const char *job, int *directory_lock)
{
	struct err err = {{0}};
	*directory_lock = DIRECTORY_LOCK_NONE;
	if (!job[0] || host_has(daemon, job))
		return true;
	if (daemon->control.registry &&
	    (!registry_is_synced(daemon->control.registry) || coordinator_of(daemon, job) != NO_NODE))
		return false;
	int rc = directory_lock_take(daemon, job, directory_lock, &err);
	if (rc && rc != -EBUSY)
		log_warn("nothing of job %s is removed for now: %s", job, err.text);
	return !rc;
}

void directory_lock_give(struct daemon *daemon, int *directory_lock)
{
	if (*directory_lock >= 0)
		disk_close_file(daemon->storage.disk, *directory_lock);
	*directory_lock = DIRECTORY_LOCK_NONE;
}
