#include "checkpoint/directory_lock.h"

#include "base/log.h"
#include "control/coordinator_host.h"
#include "daemon.h"
#include "store/disk.h"

static int open_job(struct daemon *d, const char *job)
{
	struct disk_op make = {.kind = DISK_MKDIR, .dir = d->root, .name = job};
	int rc = disk_do(d->disk, &make);
	return rc && rc != -EEXIST ? rc : disk_open_at(d->disk, d->root, job, DISK_DIR);
}

int tenure_take(struct daemon *daemon, const char *job, int *tenure, struct err *err)
{
	*tenure = TENURE_NONE;
	if (!daemon->config.cluster || daemon->root < 0)
		return 0;
	int dir = open_job(daemon, job);
	if (dir < 0)
		return err_set(err, dir, "cannot open %s/%s: %s", daemon->config.store, job, err_name(dir));
	int lock = disk_lock(daemon->disk, dir, TENURE_FILE);
	disk_close_file(daemon->disk, dir);
	if (lock == -EWOULDBLOCK)
		return err_set(err, -EBUSY,
			       "job '%s' is the business of another daemon of this store (it holds %s/%s/%s)", job,
			       daemon->config.store, job, TENURE_FILE);
	if (lock < 0)
		return err_set(err, lock, "cannot lock %s/%s/%s: %s", daemon->config.store, job, TENURE_FILE,
			       err_name(lock));
	*tenure = lock;
	return 0;
}

bool tenure_to_remove(struct daemon *daemon, const char *job, int *tenure)
{
	struct err err = {{0}};
	*tenure = TENURE_NONE;
	if (!job[0] || chair_has(daemon, job))
		return true;
	int rc = tenure_take(daemon, job, tenure, &err);
	if (rc && rc != -EBUSY)
		log_warn("nothing of job %s is removed for now: %s", job, err.text);
	return !rc;
}

void tenure_give(struct daemon *daemon, int *tenure)
{
	if (*tenure >= 0)
		disk_close_file(daemon->disk, *tenure);
	*tenure = TENURE_NONE;
}
