#include "control/record/epoch_record.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "catalog/room.h"
#include "checkpoint/room.h"
#include "control/control.h"
#include "control/election/election.h"
#include "replication/room.h"
#include "runtime/room.h"
#include "store/read/epoch_file.h"
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

static int last_in_store(struct control *control, const char *job, uint32_t *last, struct begun *begun, struct err *err)
{
	struct repo repo;
	int rc = failpoint("job.epoch", NULL);
	if (rc)
		return err_set(err, rc, "cannot read the store: %s", err_name(rc));
	rc = repo_open(control->runtime->config.store, &repo, err);
	if (rc)
		return rc;
	rc = last ? last_of_names(&repo, job, last, err) : 0;
	if (!rc)
		rc = epoch_file_read(&repo, job, begun, err);
	repo_close(&repo);
	return rc;
}

static uint32_t later(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* The store has what was recorded without a registry, too; and something older than the registry where a former coordinator wrote it late. What was
 * asked is that of the later epoch: in one epoch the registry has it first. */
static void take_newer(struct begun *last, struct begun *other)
{
	if (other->id.epoch > last->id.epoch) {
		last->finished = other->finished; /* it goes with the epoch in which they have */
		const struct asked_record newer = other->asked;
		other->asked = last->asked;
		last->asked = newer;
	}
	last->id.epoch = later(last->id.epoch, other->id.epoch);
	last->ended = later(last->ended, other->ended);
	if (rollbacks_last(&other->back) > rollbacks_last(&last->back))
		last->back = other->back;
	if (other->plan.number <= last->plan.number)
		return;
	const struct plan_record newer = other->plan;
	other->plan = last->plan;
	last->plan = newer;
}

/* names: the last epoch that a directory of the store bears; NULL: nobody asks. */
static int read_last(struct control *control, const char *job, uint32_t *elected, uint32_t *names, struct begun *last,
		     struct err *err)
{
	struct begun stored = {.id = {0}};
	int rc = election_last_begun(control, job, last, err);
	if (rc)
		return rc;
	*elected = last->id.epoch;
	rc = control->runtime->config.store ? last_in_store(control, job, names, &stored, err) : 0;
	if (!rc)
		take_newer(last, &stored);
	else
		begun_free(last);
	begun_free(&stored);
	return rc;
}

bool epochs_are_kept(const struct control *control)
{
	return control->registry || control->runtime->config.store;
}

int epochs_last(struct control *control, const char *job, struct begun *last, struct err *err)
{
	uint32_t elected;
	return read_last(control, job, &elected, NULL, last, err);
}

int epochs_first(struct control *control, const char *job, struct epochs_start *start, struct err *err)
{
	struct begun last;
	uint32_t names = 0;
	*start = (struct epochs_start){0};
	int rc = read_last(control, job, &start->elected, &names, &last, err);
	if (rc)
		return rc;
	uint32_t epoch = later(catalog_last_epoch(control->storage->catalog, job), later(names, last.id.epoch));
	if (control->peers->replica)
		epoch = later(epoch, replica_known_epoch(control->peers->replica, job));
	start->next = epoch + 1;
	start->back = last.back;
	start->plan = last.plan;
	start->asked = last.asked;
	start->ended = last.ended;
	return 0;
}

/* ---- the record ------------------------------------------------------------------------------------------------- */

struct epochs_record {
	struct work work;
	struct epochs_record *next;
	struct control *control;
	bool elected; /* the registry has it first */
	const char *store;
	struct begun begun;
	void (*done)(void *arg, uint32_t epoch, int rc, const char *text); /* NULL: it was forgotten under way */
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
		rc = disk_put_file(repo->disk, dir, NAME_EPOCH, text.data, text.len, true, err);
	disk_close_file(repo->disk, dir);
	return rc;
}

static void run(struct work *work)
{
	struct epochs_record *r = list_entry(work, struct epochs_record, work);
	struct repo repo;
	r->rc = 0;
	if (!r->store)
		return;
	r->rc = repo_open(r->store, &repo, &r->err);
	if (r->rc)
		return;
	r->rc = put(&repo, &r->begun, &r->err);
	repo_close(&repo);
}

/* The registry has it: now the store, for whoever runs without a registry later. */
static void to_store(struct epochs_record *r)
{
	r->rc = -ECANCELED; /* where the daemon ends before a worker has begun */
	pool_submit(r->control->runtime->pool, &r->work);
}

static void end(struct epochs_record *r);

static void in_registry(void *arg, int rc, const char *why)
{
	struct epochs_record *r = arg;
	if (!rc) {
		to_store(r);
		return;
	}
	r->rc = err_set(&r->err, rc, "%s", why);
	end(r);
}

static int to_registry(struct epochs_record *r)
{
	AUTO_WBUF struct wbuf text = {0};
	int rc = r->control->registry ? begun_encode(&r->begun, &text) : -ESHUTDOWN;
	return rc ? rc : election_record_epoch(r->control, r->begun.job, text.data, text.len, in_registry, r);
}

static int begin(struct epochs_record *r)
{
	if (r->elected)
		return to_registry(r);
	to_store(r);
	return 0;
}

/* The first of the job. */
static struct epochs_record *first_of(const struct control *control, const char *job)
{
	struct epochs_record *r = control->records;
	while (r && strcmp(r->begun.job, job) != 0)
		r = r->next;
	return r;
}

static void leave(struct epochs_record *r)
{
	struct epochs_record **at = &r->control->records;
	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
}

static void free_record(struct epochs_record *r)
{
	begun_free(&r->begun);
	free(r);
}

static void end(struct epochs_record *r)
{
	leave(r);
	struct epochs_record *next = first_of(r->control, r->begun.job);
	if (next && (next->rc = begin(next)) != 0)
		end(next);
	if (r->done)
		r->done(r->arg, r->begun.id.epoch, r->rc, r->err.text[0] ? r->err.text : err_name(r->rc));
	free_record(r);
}

static void finish(struct work *work)
{
	end(list_entry(work, struct epochs_record, work));
}

static struct epochs_record *new_record(struct control *control, struct begun *begun)
{
	struct epochs_record *r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	*r = (struct epochs_record){.work = {.run = run, .done = finish},
				    .control = control,
				    .elected = control->registry != NULL,
				    .store = control->runtime->config.store,
				    .begun = *begun};
	r->begun.begun_at = clock_wall();
	begun->plan = (struct plan_record){0};
	begun->asked = (struct asked_record){0};
	return r;
}

int epochs_record(struct control *control, struct begun *begun,
		  void (*done)(void *arg, uint32_t epoch, int rc, const char *text), void *arg,
		  struct epochs_record **out)
{
	struct epochs_record *r = new_record(control, begun), **last = &control->records;
	if (!r) {
		begun_free(begun);
		return -ENOMEM;
	}
	bool waits = first_of(control, r->begun.job);
	int rc = waits ? 0 : begin(r);
	if (rc) {
		free_record(r);
		return rc;
	}
	r->done = done;
	r->arg = arg;
	while (*last)
		last = &(*last)->next;
	*last = r;
	*out = r;
	return 0;
}

void epochs_forget(struct epochs_record *record)
{
	if (!record)
		return;
	record->done = NULL;
	if (first_of(record->control, record->begun.job) == record)
		return; /* it is under way */
	leave(record);
	free_record(record);
}
