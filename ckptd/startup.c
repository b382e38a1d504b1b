#include "startup.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "catalog/room.h"
#include "cluster/room.h"
#include "control/room.h"
#include "job/room.h"
#include "service/room.h"
#include "store/disk/power.h"
#include "store/read/repo.h"
#include "upkeep/room.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void open_catalog(struct daemon *d)
{
	struct err err = {{0}};
	int rc = failpoint("catalog.open", NULL);
	if (!rc)
		rc = catalog_open(d->runtime.config.store, &d->storage.catalog, &err);
	if (rc)
		log_warn("working without a catalog: %s", err.text);
	else if (catalog_sync(d->storage.catalog, &err))
		log_warn("the catalog is not in line with the store: %s", err.text);
}

void startup_umask(const struct config *config)
{
	mode_t mode = setting_store_mode(config) & 0777;
	mode_t was = umask(0777 & ~mode);
	if (!(mode & 077))
		umask(was | 022);
}

int startup_store(struct daemon *d, struct err *err)
{
	power_remember(d->runtime.config.faults);
	d->storage.root = -1;
	int rc = d->runtime.config.store
			 ? repo_create_mode(d->runtime.config.store, setting_store_mode(&d->runtime.config), err)
			 : 0;
	if (!rc)
		rc = disk_new(d->runtime.config.store, &d->storage.disk, &d->storage.root, err);
	if (!rc && d->runtime.config.store)
		rc = repo_place_init(&d->storage.place, d->storage.disk, d->storage.root, d->runtime.config.store, err);
	if (rc || !d->runtime.config.store)
		return rc;
	/* The daemons of a cluster share it, each job of it belongs to one (control/record/directory_lock.h); one in no cluster has it alone. */
	rc = store_lock_take(&d->storage.lock, d->peers.roster, d->storage.disk, d->storage.root,
			     d->runtime.config.store, err);
	if (rc)
		return rc;
	rc = gc_new(&d->jobs, &d->storage.gc, err);
	bool keeps = !d->peers.roster ||
		     d->peers.self == roster_first(d->peers.roster); /* of a store that is shared, one is enough */
	if (!rc)
		rc = scrub_new(&d->jobs, keeps, &d->storage.scrub, err);
	if (!rc && keeps)
		open_catalog(d);
	if (!rc && keeps && d->peers.roster && !d->runtime.config.registry)
		set_aside_load(&d->control);
	return rc;
}

/* The world stands in its head; that the rest of it is true is checked when the rank gets it. */
static int retake(struct daemon *d, const char *job, uint32_t rank, int fd, struct err *err)
{
	struct wire_hello hello = {.role = ROLE_RANK, .rank = rank};
	snprintf(hello.job, sizeof(hello.job), "%s", job);
	if (pread(fd, &hello.world, sizeof(hello.world), offsetof(struct arena_head, world)) == sizeof(hello.world))
		return job_retake(&d->jobs, &hello, fd, err);
	close(fd);
	return err_set(err, -EBADMSG, "it is not one");
}

void startup_arenas(struct daemon *d)
{
	char job[NAME_JOB_MAX];
	uint32_t rank;
	int fd;
	while (manager_take_arena(d->runtime.manager, job, &rank, &fd)) {
		struct err err = {{0}};
		if (!retake(d, job, rank, fd, &err))
			continue;
		log_warn("job %s: the arena of rank %u, held by the service manager, is refused: %s", job, rank,
			 err.text);
		manager_drop(d->runtime.manager, job, rank);
	}
}

void startup_close(struct daemon *d)
{
	scrub_free(d->storage.scrub);
	d->storage.scrub = NULL;
	gc_free(d->storage.gc);
	d->storage.gc = NULL;
	catalog_close(d->storage.catalog);
	d->storage.catalog = NULL;
	store_lock_give(&d->storage.lock);
}
