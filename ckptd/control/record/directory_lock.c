#include "control/record/directory_lock.h"

#include "base/log.h"
#include "checkpoint/room.h"
#include "cluster/room.h"
#include "control/control.h"
#include "control/host/coordinator_host.h"
#include "registry/room.h"
#include "replication/room.h"
#include "runtime/room.h"
#include "store/disk/disk.h"

static int open_job(struct control *control, const char *job)
{
	struct disk_op make = {.kind = DISK_MKDIR, .dir = control->storage->root, .name = job};
	int rc = disk_do(control->storage->disk, &make);
	return rc && rc != -EEXIST ? rc : disk_open_at(control->storage->disk, control->storage->root, job, DISK_DIR);
}

int directory_lock_take(struct control *control, const char *job, int *directory_lock, struct err *err)
{
	*directory_lock = DIRECTORY_LOCK_NONE;
	if ((!control->runtime->config.cluster && !control->peers->roster) || control->storage->root < 0)
		return 0;
	int dir = open_job(control, job);
	if (dir < 0)
		return err_set(err, dir, "cannot open %s/%s: %s", control->runtime->config.store, job, err_name(dir));
	int lock = disk_lock(control->storage->disk, dir, DIRECTORY_LOCK_FILE);
	disk_close_file(control->storage->disk, dir);
	if (lock == -EWOULDBLOCK)
		return err_set(err, -EBUSY,
			       "job '%s' is the business of another daemon of this store (it holds %s/%s/%s)", job,
			       control->runtime->config.store, job, DIRECTORY_LOCK_FILE);
	if (lock < 0)
		return err_set(err, lock, "cannot lock %s/%s/%s: %s", control->runtime->config.store, job,
			       DIRECTORY_LOCK_FILE, err_name(lock));
	*directory_lock = lock;
	return 0;
}

bool directory_lock_to_remove(struct control *control, const char *job, int *directory_lock)
{
	struct err err = {{0}};
	*directory_lock = DIRECTORY_LOCK_NONE;
	if (!job[0] || host_has(control, job))
		return true;
	if (control->registry && (!registry_is_synced(control->registry) || coordinator_of(control, job) != NO_NODE))
		return false;
	int rc = directory_lock_take(control, job, directory_lock, &err);
	if (rc && rc != -EBUSY)
		log_warn("nothing of job %s is removed for now: %s", job, err.text);
	return !rc;
}

bool directory_lock_stands(const struct control *control, const char *job)
{
	if (!control->registry || !job[0])
		return true;
	if (host_has(control, job))
		return !coordinator_term(control, job) || host_here(control, job);
	return registry_is_synced(control->registry) && coordinator_of(control, job) == NO_NODE;
}

void directory_lock_give(struct control *control, int *directory_lock)
{
	if (*directory_lock >= 0)
		disk_close_file(control->storage->disk, *directory_lock);
	*directory_lock = DIRECTORY_LOCK_NONE;
}
