#include "control/partial.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "control/directory_lock.h"
#include "daemon.h"
#include "store/disk/disk.h"
#include "store/read/repo.h"

#include <stdio.h>

static int move_aside(struct daemon *d, const struct checkpoint_ref *ref, struct err *err)
{
	char name[NAME_DIR_MAX], aside[NAME_DIR_MAX + 48];
	int job = disk_open_at(d->storage.disk, d->storage.root, ref->job, DISK_DIR);
	if (job < 0)
		return err_set(err, job, "cannot open %s: %s", ref->job, err_name(job));
	name_dir(ref->id, name);
	snprintf(aside, sizeof(aside), "%s%s.%lx", REPO_ABANDONED, name, (unsigned long)clock_wall());
	int rc = failpoint("startup.aside", NULL);
	if (!rc)
		rc = disk_rename_at(d->storage.disk, job, name, aside);
	if (!rc)
		rc = disk_fsync(d->storage.disk, job);
	disk_close_file(d->storage.disk, job);
	if (rc == -ENOENT)
		return 0; /* removed since it was listed */
	if (rc)
		return err_set(err, rc, "cannot move %s/%s aside: %s", ref->job, name, err_name(rc));
	log_info("%s/%s was left half-written by a crash: moved to %s", ref->job, name, aside);
	return 0;
}

/* Of what belongs to another daemon, that one knows whether it is being written. */
static int move_aside_own(struct daemon *d, const struct checkpoint_ref *ref, struct err *err)
{
	int directory_lock, rc = directory_lock_take(d, ref->job, &directory_lock, err);
	if (rc)
		return rc == -EBUSY ? 0 : rc;
	rc = move_aside(d, ref, err);
	directory_lock_give(d, &directory_lock);
	return rc;
}

static int move(struct daemon *d, const char *job,
		int (*one)(struct daemon *, const struct checkpoint_ref *, struct err *), struct err *err)
{
	struct repo repo;
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	size_t n = 0;
	int rc = repo_open(d->runtime.config.store, &repo, err);
	if (rc)
		return rc;
	rc = failpoint("startup.scan", NULL);
	if (!rc)
		rc = repo_scan(&repo, job, &refs, &n, err);
	repo_close(&repo);
	for (size_t i = 0; !rc && i < n; i++)
		if (refs[i].state == CHECKPOINT_PARTIAL)
			rc = one(d, &refs[i], err);
	return rc;
}

int partials_move_all(struct daemon *daemon, struct err *err)
{
	return move(daemon, NULL, move_aside_own, err);
}

int partials_move(struct daemon *daemon, const char *job, struct err *err)
{
	return move(daemon, job, move_aside, err);
}
