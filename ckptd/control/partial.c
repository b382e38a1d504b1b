#include "control/partial.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "checkpoint/room.h"
#include "control/control.h"
#include "control/directory_lock.h"
#include "runtime/room.h"
#include "store/disk/disk.h"
#include "store/read/repo.h"

#include <stdio.h>

static int move_aside(struct control *control, const struct checkpoint_ref *ref, struct err *err)
{
	char name[NAME_DIR_MAX], aside[NAME_DIR_MAX + 48];
	int job = disk_open_at(control->storage->disk, control->storage->root, ref->job, DISK_DIR);
	if (job < 0)
		return err_set(err, job, "cannot open %s: %s", ref->job, err_name(job));
	name_dir(ref->id, name);
	snprintf(aside, sizeof(aside), "%s%s.%lx", REPO_ABANDONED, name, (unsigned long)clock_wall());
	int rc = failpoint("startup.aside", NULL);
	if (!rc)
		rc = disk_rename_at(control->storage->disk, job, name, aside);
	if (!rc)
		rc = disk_fsync(control->storage->disk, job);
	disk_close_file(control->storage->disk, job);
	if (rc == -ENOENT)
		return 0; /* removed since it was listed */
	if (rc)
		return err_set(err, rc, "cannot move %s/%s aside: %s", ref->job, name, err_name(rc));
	log_info("%s/%s was left half-written by a crash: moved to %s", ref->job, name, aside);
	return 0;
}

/* Of what belongs to another daemon, that one knows whether it is being written. */
static int move_aside_own(struct control *control, const struct checkpoint_ref *ref, struct err *err)
{
	int directory_lock, rc = directory_lock_take(control, ref->job, &directory_lock, err);
	if (rc)
		return rc == -EBUSY ? 0 : rc;
	rc = move_aside(control, ref, err);
	directory_lock_give(control, &directory_lock);
	return rc;
}

static int move(struct control *control, const char *job,
		int (*one)(struct control *, const struct checkpoint_ref *, struct err *), struct err *err)
{
	struct repo repo;
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	size_t n = 0;
	int rc = repo_open(control->runtime->config.store, &repo, err);
	if (rc)
		return rc;
	rc = failpoint("startup.scan", NULL);
	if (!rc)
		rc = repo_scan(&repo, job, &refs, &n, err);
	repo_close(&repo);
	for (size_t i = 0; !rc && i < n; i++)
		if (refs[i].state == CHECKPOINT_PARTIAL)
			rc = one(control, &refs[i], err);
	return rc;
}

int partials_move_all(struct control *control, struct err *err)
{
	return move(control, NULL, move_aside_own, err);
}

int partials_move(struct control *control, const char *job, struct err *err)
{
	return move(control, job, move_aside, err);
}
