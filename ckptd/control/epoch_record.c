#include "control/epoch_record.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "catalog/room.h"
#include "checkpoint/room.h"
#include "control/control.h"
#include "control/election.h"
#include "format/files/marks.h"
#include "replication/room.h"
#include "runtime/room.h"
#include "store/read/repo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the first -------------------------------------------------------------------------------------------------- */

/* The last that a directory of the store bears; partial ones count, too: their names are taken. */
static int last_of_names(struct repo *repo, const char *job, uint32_t *last, struct err *err)
{
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	size_t n = 0;
	int rc = repo_scan(repo, job, &refs, &n, err);
	for (size_t i = 0; !rc && i < n; i++)
		*last = refs[i].id.epoch > *last ? refs[i].id.epoch : *last;
	return rc;
}

static int read_record(struct repo *repo, int dir, struct begun *begun, struct err *err)
{
	AUTO_FREE void *text = NULL;
	size_t len = 0;
	int rc = disk_read_file(repo->disk, dir, EPOCHS_FILE, MARK_BYTES_MAX, &text, &len, err);
	if (rc == -ENOENT)
		return 0;
	return rc ? rc : begun_decode(text, len, begun, err);
}

static int last_of_record(struct repo *repo, const char *job, struct begun *begun, struct err *err)
{
	int dir = disk_open_at(repo->disk, repo->root, job, DISK_DIR);
	if (dir == -ENOENT)
		return 0;
	if (dir < 0)
		return err_set(err, dir, "cannot open %s/%s: %s", repo->path, job, err_name(dir));
	int rc = read_record(repo, dir, begun, err);
	disk_close_file(repo->disk, dir);
	return rc ? err_prefix(err, rc, "%s/%s/" EPOCHS_FILE, repo->path, job) : 0;
}

static int last_in_store(struct control *control, const char *job, uint32_t *last, struct begun *begun, struct err *err)
{
	struct repo repo;
	int rc = failpoint("job.epoch", NULL);
	if (rc)
		return err_set(err, rc, "cannot read the store: %s", err_name(rc));
	rc = repo_open(control->runtime->config.store, &repo, err);
	if (rc)
		return rc;
	rc = last_of_names(&repo, job, last, err);
	if (!rc)
		rc = last_of_record(&repo, job, begun, err);
	repo_close(&repo);
	return rc;
}

static uint32_t later(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

int epochs_first(struct control *control, const char *job, uint32_t *epoch, struct rollbacks *back, struct err *err)
{
	struct begun elected = {.id = {0}}, stored = {.id = {0}};
	election_last_begun(control, job, &elected);
	*epoch = later(catalog_last_epoch(control->storage->catalog, job), elected.id.epoch);
	if (control->peers->replica)
		*epoch = later(*epoch, replica_known_epoch(control->peers->replica, job));
	int rc = control->runtime->config.store ? last_in_store(control, job, epoch, &stored, err) : 0;
	*epoch = later(*epoch, stored.id.epoch) + 1;
	*back = rollbacks_last(&elected.back) > rollbacks_last(&stored.back) ? elected.back : stored.back;
	return rc;
}

/* ---- the record ------------------------------------------------------------------------------------------------- */

struct epochs_record {
	struct work work;
	struct pool *pool;
	const char *store;
	struct begun begun;
	void (*done)(void *arg, uint32_t epoch, int rc, const char *text); /* NULL: nobody waits for it any more */
	void *arg;
	int rc;
	struct err err;
};

/* Whoever made the directory may have died before it could fsync its name. */
static int open_job_dir(struct repo *repo, const char *job, struct err *err)
{
	struct disk_op make = {.kind = DISK_MKDIR, .dir = repo->root, .name = job};
	int rc = disk_do(repo->disk, &make);
	if (!rc || rc == -EEXIST)
		rc = disk_fsync(repo->disk, repo->root);
	if (!rc)
		rc = disk_open_at(repo->disk, repo->root, job, DISK_DIR);
	return rc < 0 ? err_set(err, rc, "cannot make %s/%s: %s", repo->path, job, err_name(rc)) : rc;
}

static int put(struct repo *repo, const struct begun *begun, struct err *err)
{
	AUTO_WBUF struct wbuf text = {0};
	int dir = open_job_dir(repo, begun->job, err);
	if (dir < 0)
		return dir;
	int rc = begun_encode(begun, &text);
	if (!rc)
		rc = failpoint("job.record", NULL);
	if (!rc)
		rc = disk_put_file(repo->disk, dir, EPOCHS_FILE, text.data, text.len, true, err);
	disk_close_file(repo->disk, dir);
	return rc;
}

static void run(struct work *work)
{
	struct epochs_record *r = list_entry(work, struct epochs_record, work);
	struct repo repo;
	if (!r->store)
		return;
	r->rc = repo_open(r->store, &repo, &r->err);
	if (r->rc)
		return;
	r->rc = put(&repo, &r->begun, &r->err);
	repo_close(&repo);
}

static void finish(struct work *work)
{
	struct epochs_record *r = list_entry(work, struct epochs_record, work);
	if (r->done)
		r->done(r->arg, r->begun.id.epoch, r->rc, r->err.text[0] ? r->err.text : err_name(r->rc));
	free(r);
}

/* The registry has it: now the store, for whoever runs without a registry later. */
static void in_registry(void *arg, int rc, const char *why)
{
	struct epochs_record *r = arg;
	if (!rc) {
		pool_submit(r->pool, &r->work);
		return;
	}
	r->rc = err_set(&r->err, rc, "%s", why);
	finish(&r->work);
}

static int tell_registry(struct control *control, struct epochs_record *r)
{
	AUTO_WBUF struct wbuf text = {0};
	int rc = begun_encode(&r->begun, &text);
	return rc ? rc : election_record_epoch(control, r->begun.job, text.data, text.len, in_registry, r);
}

int epochs_record(struct control *control, const char *job, uint32_t epoch, const struct rollbacks *back,
		  const char *reason, void (*done)(void *arg, uint32_t epoch, int rc, const char *text), void *arg,
		  struct epochs_record **out)
{
	struct epochs_record *r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->work = (struct work){.run = run, .done = finish};
	r->store = control->runtime->config.store;
	r->begun.id.epoch = epoch;
	r->begun.begun_at = clock_wall();
	r->begun.back = *back;
	snprintf(r->begun.job, sizeof(r->begun.job), "%s", job);
	snprintf(r->begun.reason, sizeof(r->begun.reason), "%s", reason);
	r->done = done;
	r->arg = arg;
	r->pool = control->runtime->pool;
	int rc = control->registry ? tell_registry(control, r) : 0;
	if (rc) {
		free(r);
		return rc;
	}
	*out = r;
	if (!control->registry)
		pool_submit(control->runtime->pool, &r->work);
	return 0;
}

void epochs_forget(struct epochs_record *record)
{
	if (record)
		record->done = NULL;
}
