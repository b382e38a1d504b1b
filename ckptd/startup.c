#include "startup.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "catalog/room.h"
#include "control/room.h"
#include "job/room.h"
#include "service/room.h"
#include "store/disk/denied.h"
#include "store/read/repo.h"
#include "upkeep/room.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A partial directory of a commit that a crash cut short: its snapshot may come back with an arena and be written again under
 * this very name. Renaming keeps the bytes for whoever wants to look, until upkeep/gc.h collects them. */
static int move_aside(struct daemon *d, const struct checkpoint_ref *ref, struct err *err)
{
	char name[NAME_DIR_MAX], aside[NAME_DIR_MAX + 48];
	int job = disk_open_at(d->disk, d->root, ref->job, DISK_DIR);
	if (job < 0)
		return err_set(err, job, "cannot open %s: %s", ref->job, err_name(job));
	name_dir(ref->id, name);
	snprintf(aside, sizeof(aside), "%s%s.%lx", REPO_ABANDONED, name, (unsigned long)clock_wall());
	int rc = failpoint("startup.aside", NULL);
	if (!rc)
		rc = disk_rename_at(d->disk, job, name, aside);
	if (!rc)
		rc = disk_fsync(d->disk, job);
	disk_close_file(d->disk, job);
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

static int clean_up(struct daemon *d, struct err *err)
{
	struct repo repo;
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	size_t n = 0;
	int rc = repo_open(d->config.store, &repo, err);
	if (rc)
		return rc;
	rc = failpoint("startup.scan", NULL);
	if (!rc)
		rc = repo_scan(&repo, NULL, &refs, &n, err);
	repo_close(&repo);
	for (size_t i = 0; !rc && i < n; i++)
		if (refs[i].state == CHECKPOINT_PARTIAL)
			rc = move_aside_own(d, &refs[i], err);
	return rc;
}

static void open_catalog(struct daemon *d)
{
	struct err err = {{0}};
	int rc = failpoint("catalog.open", NULL);
	if (!rc)
		rc = catalog_open(d->config.store, &d->catalog, &err);
	if (rc)
		log_warn("working without a catalog: %s", err.text);
	else if (catalog_sync(d->catalog, &err))
		log_warn("the catalog is not in line with the store: %s", err.text);
}

void startup_umask(const struct config *config)
{
	mode_t mode = setting_store_mode(config) & 0777;
	mode_t was = umask(0777 & ~mode);
	if (!(mode & 077))
		umask(was | 022);
}

int startup_store(struct daemon *d, int *lock, struct err *err)
{
	*lock = -1;
	d->root = -1;
	int rc = d->config.store ? repo_create_mode(d->config.store, setting_store_mode(&d->config), err) : 0;
	if (!rc)
		rc = disk_new(d->config.store, &d->disk, &d->root, err);
	if (rc || !d->config.store)
		return rc;
	/* The daemons of a cluster share it, each job of it belongs to one (control/directory_lock.h); one in no cluster has it alone. */
	*lock = (d->config.cluster ? disk_share : disk_lock)(d->disk, d->root, REPO_LOCK);
	if (*lock == -EWOULDBLOCK)
		return err_set(err, *lock, "another ckptd%s has the store %s (it holds %s/%s)",
			       d->config.cluster ? ", which is in no cluster," : "", d->config.store, d->config.store,
			       REPO_LOCK);
	if (*lock < 0) {
		err_set(err, *lock, "cannot lock %s/%s: %s", d->config.store, REPO_LOCK, err_name(*lock));
		return denied_dir(d->disk, d->root, *lock, err);
	}
	rc = clean_up(d, err);
	if (!rc)
		rc = gc_new(d, &d->gc, err);
	if (!rc && host_here(d)) /* of a store that is shared, one is enough */
		rc = scrub_new(d, &d->scrub, err);
	if (!rc && host_here(d))
		open_catalog(d);
	return rc;
}

/* The world stands in its head; that the rest of it is true is checked when the rank gets it. */
static int retake(struct daemon *d, const char *job, uint32_t rank, int fd, struct err *err)
{
	struct wire_hello hello = {.role = ROLE_RANK, .rank = rank};
	snprintf(hello.job, sizeof(hello.job), "%s", job);
	if (pread(fd, &hello.world, sizeof(hello.world), offsetof(struct arena_head, world)) == sizeof(hello.world))
		return job_retake(d, &hello, fd, err);
	close(fd);
	return err_set(err, -EBADMSG, "it is not one");
}

void startup_arenas(struct daemon *d)
{
	char job[NAME_JOB_MAX];
	uint32_t rank;
	int fd;
	while (manager_take_arena(d->manager, job, &rank, &fd)) {
		struct err err = {{0}};
		if (!retake(d, job, rank, fd, &err))
			continue;
		log_warn("job %s: the arena of rank %u, held by the service manager, is refused: %s", job, rank,
			 err.text);
		manager_drop(d->manager, job, rank);
	}
}

void startup_close(struct daemon *d, int lock)
{
	scrub_free(d->scrub);
	d->scrub = NULL;
	gc_free(d->gc);
	d->gc = NULL;
	catalog_close(d->catalog);
	d->catalog = NULL;
	if (lock >= 0)
		disk_close_file(d->disk, lock);
}
