#include "upkeep/scrub.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "catalog/room.h"
#include "checkpoint/room.h"
#include "job/room.h"
#include "runtime/room.h"
#include "store/read/repo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_EVERY (600 * CLOCK_NS_PER_S)

enum { BATCH = 64, WANTED_MAX = 8 };

enum scrub_state { SCRUB_IDLE = 0, SCRUB_PLAN, SCRUB_READ };

struct due {
	char job[NAME_JOB_MAX];
	struct step_id id;
	uint64_t read_ns; /* wall time; of its commit when it was never read */
};

struct scrub {
	struct runtime *runtime;
	struct storage *storage;
	struct jobs *jobs;
	struct pool *pool; /* one thread */
	bool keeps;
	enum scrub_state state;
	uint64_t next_ns;              /* when it looks again */
	struct due wanted[WANTED_MAX]; /* the next one first */
	size_t nwanted;
	struct due reading; /* read_ns 0: it was wanted */
	/* The worker's while PLAN, the loop's otherwise. */
	struct work work;
	uint64_t before_ns; /* what was read earlier is due */
	struct due due[BATCH];
	size_t ndue, at;
	_Atomic int gait; /* enum readback_gait */
	struct verify_item *item;
};

/* ---- what is due -------------------------------------------------------------------------------------------------- */

/* Keeps the longest unread ones, in order. */
static void insert(struct scrub *scrub, const struct due *d)
{
	if (scrub->ndue == BATCH && scrub->due[BATCH - 1].read_ns <= d->read_ns)
		return;
	size_t i = scrub->ndue < BATCH ? scrub->ndue++ : BATCH - 1;
	for (; i > 0 && scrub->due[i - 1].read_ns > d->read_ns; i--)
		scrub->due[i] = scrub->due[i - 1];
	scrub->due[i] = *d;
}

static void consider(struct scrub *scrub, struct repo *repo, const struct checkpoint_ref *ref)
{
	struct checkpoint ck;
	struct health health;
	struct err ignored = {0};
	struct due d = {.id = ref->id, .read_ns = ref->committed_ns};
	snprintf(d.job, sizeof(d.job), "%s", ref->job);
	if (ref->state != CHECKPOINT_COMMITTED)
		return;
	if (!checkpoint_open_root(repo, ref->job, ref->id, &ck, &ignored)) {
		if (!checkpoint_health(&ck, &health, &ignored))
			d.read_ns = health.verified_at;
		checkpoint_close(&ck);
	}
	if (d.read_ns < scrub->before_ns)
		insert(scrub, &d);
}

static void plan_run(struct work *work)
{
	struct scrub *scrub = list_entry(work, struct scrub, work);
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	struct repo repo;
	struct err err = {0};
	size_t n = 0;
	scrub->ndue = scrub->at = 0;
	int rc = repo_open(scrub->runtime->config.store, &repo, &err);
	if (!rc)
		rc = repo_scan(&repo, NULL, &refs, &n, &err);
	for (size_t i = 0; !rc && i < n; i++)
		consider(scrub, &repo, &refs[i]);
	repo_close(&repo);
	if (rc)
		log_warn("cannot look for checkpoints to read again: %s", err.text);
}

static void plan_done(struct work *work)
{
	struct scrub *scrub = list_entry(work, struct scrub, work);
	scrub->state = SCRUB_IDLE;
	scrub->next_ns = clock_now() + LOOK_EVERY;
}

static void plan(struct scrub *scrub)
{
	uint64_t now = clock_wall(), age = scrub->runtime->config.scrub_interval_ms * CLOCK_NS_PER_MS;
	scrub->before_ns = now > age ? now - age : 0;
	scrub->work = (struct work){.run = plan_run, .done = plan_done};
	scrub->state = SCRUB_PLAN;
	pool_submit(scrub->pool, &scrub->work);
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

static void tell(struct scrub *scrub, const struct due *d, int rc, const struct err *err)
{
	struct catalog *catalog = scrub->storage->catalog;
	struct job *job = job_find(scrub->jobs, d->job);
	if (rc && rc != -EBADMSG) {
		if (rc != -ECANCELED && rc != -ENOENT)
			log_warn("job %s: step %lu epoch %u could not be read again: %s", d->job,
				 (unsigned long)d->id.step, d->id.epoch, err->text);
		return;
	}
	catalog_verified(catalog, d->job, d->id, rc);
	if (job)
		save_stats_reread(&job->save_stats, d->id, rc != 0);
	if (!rc && !err->text[0])
		return;
	if (rc && job)
		previous_forget(&job->saves.previous);
	log_warn("job %s: step %lu epoch %u: %s%s", d->job, (unsigned long)d->id.step, d->id.epoch,
		 rc ? "damaged: " : "", err->text);
	catalog_event(catalog, d->job, d->id, rc ? "damaged" : "repaired", err->text);
}

static void read_done(void *arg, struct step_id id, int rc, const struct err *err)
{
	struct scrub *scrub = arg;
	(void)id;
	scrub->state = SCRUB_IDLE;
	scrub->item = NULL;
	tell(scrub, &scrub->reading, rc, err);
}

/* False: there is nothing. */
static bool take_next(struct scrub *scrub)
{
	bool wanted = scrub->nwanted, due = scrub->runtime->config.scrub_interval_ms && scrub->at < scrub->ndue;
	if (wanted) {
		scrub->reading = scrub->wanted[0];
		memmove(scrub->wanted, scrub->wanted + 1, --scrub->nwanted * sizeof(scrub->wanted[0]));
	} else if (due) {
		scrub->reading = scrub->due[scrub->at++];
	}
	return wanted || due;
}

static bool is_wanted(const struct scrub *scrub, const char *job, struct step_id id)
{
	for (size_t i = 0; i < scrub->nwanted; i++)
		if (!strcmp(scrub->wanted[i].job, job) && !step_compare(scrub->wanted[i].id, id))
			return true;
	return false;
}

/* Without room for it, its turn comes. */
void scrub_want(struct scrub *scrub, const char *job, struct step_id id)
{
	if (!scrub || scrub->nwanted == WANTED_MAX || is_wanted(scrub, job, id))
		return;
	struct due *d = &scrub->wanted[scrub->nwanted++];
	*d = (struct due){.id = id};
	snprintf(d->job, sizeof(d->job), "%s", job);
}

static void read_now(struct scrub *scrub)
{
	const struct due *d = &scrub->reading;
	const struct job *job = job_find(scrub->jobs, d->job);
	struct readback what = {.job = d->job,
				.id = d->id,
				.rate = job ? job->policy.read_bandwidth : 0,
				.store = scrub->runtime->config.store,
				.meter = &scrub->storage->reads,
				.pool = scrub->pool,
				.gait = &scrub->gait,
				.done = read_done,
				.arg = scrub};
	if (!readback_start(&what, &scrub->item))
		scrub->state = SCRUB_READ;
}

static bool disk_is_wanted(const struct jobs *jobs)
{
	list_for(node, &jobs->list)
		if (list_entry(node, struct job, link)->saves.committing)
			return true;
	return false;
}

/* What was only due ends, too, when scrub-interval becomes 0. */
static void tell_gait(struct scrub *scrub, bool busy)
{
	bool off = !scrub->runtime->config.scrub_interval_ms && scrub->reading.read_ns;
	bool stop = scrub->runtime->stopping || off;
	atomic_store(&scrub->gait, stop ? READBACK_STOP : busy ? READBACK_HOLD : READBACK_GO);
}

static bool looks(const struct scrub *scrub)
{
	return scrub->keeps && scrub->runtime->config.scrub_interval_ms && clock_now() >= scrub->next_ns;
}

void scrub_tick(struct scrub *scrub)
{
	if (!scrub)
		return;
	bool busy = disk_is_wanted(scrub->jobs);
	bool ready = !scrub->runtime->stopping && !busy && scrub->state == SCRUB_IDLE;
	bool next = ready && take_next(scrub);
	tell_gait(scrub, busy);
	if (next)
		read_now(scrub);
	else if (ready && looks(scrub))
		plan(scrub);
}

/* ---- life --------------------------------------------------------------------------------------------------------- */

int scrub_new(struct jobs *jobs, bool keeps, struct scrub **out, struct err *err)
{
	struct scrub *scrub = calloc(1, sizeof(*scrub));
	if (!scrub)
		return err_set(err, -ENOMEM, "no memory to read checkpoints again");
	scrub->runtime = jobs->runtime;
	scrub->storage = jobs->storage;
	scrub->jobs = jobs;
	scrub->keeps = keeps;
	int rc = pool_new(1, &scrub->pool, err);
	if (rc) {
		free(scrub);
		return rc;
	}
	*out = scrub;
	return 0;
}

void scrub_free(struct scrub *scrub)
{
	if (!scrub)
		return;
	atomic_store(&scrub->gait, READBACK_STOP);
	pool_free(scrub->pool);
	free(scrub);
}

int scrub_event_fd(struct scrub *scrub)
{
	return scrub ? pool_event_fd(scrub->pool) : -1;
}

void scrub_poll(struct scrub *scrub)
{
	if (scrub)
		pool_poll(scrub->pool);
}

bool scrub_idle(const struct scrub *scrub)
{
	return !scrub || scrub->state == SCRUB_IDLE;
}
