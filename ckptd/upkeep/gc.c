#include "upkeep/gc.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "catalog/room.h"
#include "checkpoint/room.h"
#include "control/room.h"
#include "job/room.h"
#include "runtime/room.h"
#include "upkeep/gc_delete.h"
#include "upkeep/gc_plan.h"
#include "upkeep/gc_used.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WALK_EVERY (600 * CLOCK_NS_PER_S)
#define RETRY_AFTER (2 * CLOCK_NS_PER_S)

enum { WISHES_MAX = 4096 };

enum gc_state { GC_IDLE = 0, GC_PLAN, GC_OPEN_JOB, GC_MOVE, GC_SYNC, GC_UNLOCK, GC_SWEEP, GC_CLOSE_JOB };

struct wish {
	struct list link;
	char job[NAME_JOB_MAX]; /* "": the whole store */
	bool retain, litter;
	struct retention_policy policy; /* of a job that may have ended meanwhile */
};

struct gc {
	struct jobs *jobs;
	struct pool *pool; /* one thread: a store that is slow to list holds up nobody else */
	struct list wishes;
	unsigned nwishes;
	uint64_t walk_ns, retry_ns; /* the next look at the whole store; no round before */
	enum gc_state state;
	struct gc_plan *plan;
	int job_dir;
	int directory_lock; /* of the plan's job, where nobody coordinates it here */
	size_t at;
	bool synced;
	uint64_t paid_ns; /* what was swept before has its pause, too */
	struct sweep sweep;
	struct disk_op op;
};

static void advance(struct disk_op *op);
static void move_next(struct gc *gc);
static void sweep_next(struct gc *gc);

/* ---- wishes ---------------------------------------------------------------------------------------------------- */

static struct wish *find_wish(struct gc *gc, const char *job)
{
	list_for(node, &gc->wishes)
		if (!strcmp(list_entry(node, struct wish, link)->job, job))
			return list_entry(node, struct wish, link);
	struct wish *w = gc->nwishes < WISHES_MAX ? calloc(1, sizeof(*w)) : NULL;
	if (!w)
		return NULL;
	snprintf(w->job, sizeof(w->job), "%s", job);
	list_push(&gc->wishes, &w->link);
	gc->nwishes++;
	return w;
}

/* Without room for it, the next checkpoint or the next walk asks again. */
static void want_litter(struct gc *gc, const char *job)
{
	struct wish *w = find_wish(gc, job);
	if (w)
		w->litter = true;
}

static void want_retention(struct gc *gc, const char *job, const struct retention_policy *policy)
{
	bool rule = policy->keep_last || policy->keep_every || policy->keep_within_ns || policy->keep_hourly ||
		    policy->keep_daily;
	struct wish *w = rule ? find_wish(gc, job) : NULL;
	if (!w)
		return;
	w->retain = true;
	w->policy = *policy;
}

void gc_want(struct gc *gc, const char *job, const struct policy *p)
{
	struct retention_policy policy = {.keep_last = (uint32_t)p->keep_last,
					  .keep_every = p->keep_every,
					  .keep_within_ns = p->keep_within_ms * CLOCK_NS_PER_MS,
					  .keep_hourly = (uint32_t)p->keep_hourly,
					  .keep_daily = (uint32_t)p->keep_daily};
	if (gc)
		want_retention(gc, job, &policy);
}

static void want_again(struct gc *gc, const struct gc_plan *p)
{
	if (p->retain)
		want_retention(gc, p->job, &p->policy);
	if (p->litter)
		want_litter(gc, p->job);
}

/* ---- operations ------------------------------------------------------------------------------------------------ */

static void submit(struct gc *gc, enum gc_state state, struct disk_op op)
{
	gc->state = state;
	gc->op = op;
	gc->op.done = advance;
	gc->op.arg = gc;
	disk_submit(gc->jobs->storage->disk, &gc->op);
}

static void end_round(struct gc *gc)
{
	if (gc->plan->more)
		want_again(gc, gc->plan);
	gc_plan_free(gc->plan);
	gc->plan = NULL;
	directory_lock_give(gc->jobs->control, &gc->directory_lock);
	gc->state = GC_IDLE;
}

static void close_job(struct gc *gc)
{
	if (gc->job_dir < 0) {
		end_round(gc);
		return;
	}
	int file = gc->job_dir;
	gc->job_dir = -1;
	submit(gc, GC_CLOSE_JOB, (struct disk_op){.kind = DISK_CLOSE, .file = file});
}

/* ---- deleting -------------------------------------------------------------------------------------------------- */

static uint64_t pace(void *arg)
{
	const struct gc *gc = arg;
	list_for(node, &gc->jobs->list)
		if (list_entry(node, struct job, link)->saves.committing)
			return SWEEP_PACE_BESIDE;
	return SWEEP_PACE_ALONE;
}

static void swept(struct sweep *s)
{
	struct gc *gc = s->arg;
	struct gc_victim *v = &gc->plan->victims[gc->at++];
	gc->paid_ns = s->paid_ns;
	if (s->rc == -ENOTEMPTY && v->nfiles == TRASH_LISTED)
		want_litter(gc, gc->plan->job);
	else if (s->rc)
		log_warn("cannot delete %s/%s: %s (tried again later)", gc->plan->job, v->trash, err_name(s->rc));
	else if (!s->stop)
		log_debug("%s/%s is deleted, %lu bytes", gc->plan->job, v->trash, (unsigned long)s->freed);
	sweep_next(gc);
}

static void sweep_next(struct gc *gc)
{
	struct gc_plan *p = gc->plan;
	while (gc->at < p->nvictims && !p->victims[gc->at].moved)
		gc->at++;
	if (gc->at == p->nvictims || !gc->synced || gc->jobs->runtime->stopping) {
		close_job(gc);
		return;
	}
	const struct gc_victim *v = &p->victims[gc->at];
	gc->state = GC_SWEEP;
	gc->sweep = (struct sweep){.disk = gc->jobs->storage->disk,
				   .job_dir = gc->job_dir,
				   .name = v->trash,
				   .files = v->files,
				   .nfiles = v->nfiles,
				   .pace = pace,
				   .done = swept,
				   .arg = gc,
				   .paid_ns = gc->paid_ns};
	sweep_start(&gc->sweep);
}

/* ---- the lock is given back ------------------------------------------------------------------------------------ */

static void run_unlock(struct work *work)
{
	gc_plan_unlock(list_entry(work, struct gc_plan, work));
}

static void unlock_done(struct work *work)
{
	struct gc_plan *p = list_entry(work, struct gc_plan, work);
	struct gc *gc = p->arg;
	if (p->open) { /* the daemon ends, and nothing was run */
		end_round(gc);
		return;
	}
	gc->at = 0;
	sweep_next(gc);
}

static void unlock(struct gc *gc)
{
	gc->state = GC_UNLOCK;
	gc->plan->work = (struct work){.run = run_unlock, .done = unlock_done};
	pool_submit(gc->pool, &gc->plan->work);
}

/* ---- moving ---------------------------------------------------------------------------------------------------- */

/* While ranks are restored, here or elsewhere, nobody knows from which checkpoint. */
static bool restores(const struct gc *gc, const struct job *job, const char *name)
{
	return (job && !restore_idle(&job->restore)) || host_view(gc->jobs->control, name).restoring;
}

/* What has come into use since the plan was made stays, and what is being written; all, when another daemon may coordinate the job, or ranks are
 * restored. */
static bool still_goes(const struct gc *gc, const struct gc_victim *v)
{
	const struct job *job = v->checkpoint ? job_find(gc->jobs, gc->plan->job) : NULL;
	if (!directory_lock_stands(gc->jobs->control, gc->plan->job))
		return false;
	if (!v->checkpoint && host_writes(gc->jobs->control, gc->plan->job, v->name))
		return false;
	return !v->checkpoint || (!restores(gc, job, gc->plan->job) && (!job || !gc_in_use(job, v->id)));
}

static void moved(struct gc *gc, int64_t result)
{
	struct gc_victim *v = &gc->plan->victims[gc->at++];
	struct disk_stat st;
	/* A server whose answer was lost may say so of what it has moved. */
	if (result == -ENOENT && !disk_stat_at(gc->jobs->storage->disk, gc->job_dir, v->trash, &st))
		result = 0;
	v->moved = result >= 0;
	if (result < 0 && result != -ENOENT)
		log_warn("cannot move %s/%s out of the way: %s", gc->plan->job, v->name, err_name((int)result));
	else if (result >= 0 && v->checkpoint) {
		log_info("job %s: step %lu epoch %u is removed: no rule keeps it", gc->plan->job,
			 (unsigned long)v->id.step, v->id.epoch);
		catalog_removed(gc->jobs->storage->catalog, gc->plan->job, v->id);
		catalog_event(gc->jobs->storage->catalog, gc->plan->job, v->id, "removed", "no rule keeps it");
	} else if (result >= 0) {
		log_info("%s/%s, left by a crash, is deleted", gc->plan->job, v->name);
	}
	move_next(gc);
}

static bool any_moved(const struct gc_plan *p)
{
	for (size_t i = 0; i < p->nvictims; i++)
		if (p->victims[i].moved)
			return true;
	return false;
}

static void move_next(struct gc *gc)
{
	struct gc_plan *p = gc->plan;
	while (gc->at < p->nvictims && (p->victims[gc->at].moved || !still_goes(gc, &p->victims[gc->at])))
		gc->at++;
	if (gc->jobs->runtime->stopping)
		gc->at = p->nvictims;
	if (gc->at < p->nvictims) {
		const struct gc_victim *v = &p->victims[gc->at];
		submit(gc, GC_MOVE,
		       (struct disk_op){.kind = DISK_RENAME,
					.dir = gc->job_dir,
					.name = v->name,
					.dir2 = gc->job_dir,
					.name2 = v->trash});
	} else if (any_moved(p)) {
		submit(gc, GC_SYNC, (struct disk_op){.kind = DISK_FSYNC, .file = gc->job_dir});
	} else {
		unlock(gc);
	}
}

/* ---- plan ------------------------------------------------------------------------------------------------------ */

static void run_plan(struct work *work)
{
	gc_plan_make(list_entry(work, struct gc_plan, work));
}

static void plan_failed(struct gc *gc)
{
	struct gc_plan *p = gc->plan;
	if (p->rc == -EWOULDBLOCK) {
		gc->retry_ns = clock_deadline(RETRY_AFTER);
		want_again(gc, p);
	} else {
		log_warn("nothing is removed from the store for now: %s", p->err.text);
	}
	p->more = false;
	end_round(gc);
}

static void plan_done(struct work *work)
{
	struct gc_plan *p = list_entry(work, struct gc_plan, work);
	struct gc *gc = p->arg;
	if (p->rc) {
		plan_failed(gc);
		return;
	}
	struct job *job = p->job[0] ? job_find(gc->jobs, p->job) : NULL;
	if (job && p->retain)
		job->earlier_told = p->earlier_told;
	for (size_t i = 0; i < p->ndirty; i++)
		want_litter(gc, p->dirty[i]);
	gc->at = 0;
	gc->synced = false;
	if (!p->nvictims) /* the lock is free again */
		end_round(gc);
	else if (gc->jobs->runtime->stopping)
		unlock(gc);
	else
		submit(gc, GC_OPEN_JOB,
		       (struct disk_op){
			       .kind = DISK_OPEN, .dir = gc->jobs->storage->root, .name = p->job, .flags = DISK_DIR});
}

/* False: not now. */
static bool start_round(struct gc *gc, const struct wish *w)
{
	const struct job *job = w->job[0] ? job_find(gc->jobs, w->job) : NULL;
	if (w->retain && restores(gc, job, w->job))
		return false;
	if (!directory_lock_to_remove(gc->jobs->control, w->job, &gc->directory_lock))
		return true;
	struct gc_plan *p = calloc(1, sizeof(*p));
	if (!p) {
		directory_lock_give(gc->jobs->control, &gc->directory_lock);
		return true;
	}
	p->store = gc->jobs->runtime->config.store;
	snprintf(p->job, sizeof(p->job), "%s", w->job);
	p->retain = w->retain;
	p->litter = w->litter;
	p->policy = w->policy;
	p->collect_after_ns = gc->jobs->runtime->config.collect_after_ms * CLOCK_NS_PER_MS;
	p->arg = gc;
	p->work = (struct work){.run = run_plan, .done = plan_done};
	if (w->retain && job) {
		gc_list_used(p, job);
		p->earlier_told = job->earlier_told;
	}
	gc->plan = p;
	gc->state = GC_PLAN;
	pool_submit(gc->pool, &p->work);
	return true;
}

/* ---- the machine ----------------------------------------------------------------------------------------------- */

static int64_t checked(const char *point, int64_t result)
{
	int rc = failpoint(point, NULL);
	return rc ? rc : result;
}

static void advance(struct disk_op *op)
{
	struct gc *gc = op->arg;
	int64_t result = op->result;
	switch (gc->state) {
	case GC_OPEN_JOB:
		gc->job_dir = result < 0 ? -1 : (int)result;
		if (result < 0)
			unlock(gc); /* nothing was moved: nothing is swept */
		else
			move_next(gc);
		return;
	case GC_MOVE:
		moved(gc, checked("gc.move", result));
		return;
	case GC_SYNC:
		result = checked("gc.sync", result);
		gc->synced = result >= 0;
		if (result < 0)
			log_warn("cannot fsync %s: %s: nothing is deleted yet", gc->plan->job, err_name((int)result));
		unlock(gc);
		return;
	case GC_CLOSE_JOB:
		end_round(gc);
		return;
	case GC_IDLE:
	case GC_PLAN:
	case GC_UNLOCK:
	case GC_SWEEP:
		return; /* no operation of its own is in flight */
	}
}

static void next_round(struct gc *gc)
{
	for (unsigned n = gc->nwishes; n && gc->state == GC_IDLE; n--) {
		struct wish *w = list_entry(list_pop(&gc->wishes), struct wish, link);
		if (start_round(gc, w)) {
			gc->nwishes--;
			free(w);
		} else {
			list_push(&gc->wishes, &w->link);
		}
	}
}

void gc_tick(struct gc *gc)
{
	if (!gc)
		return;
	uint64_t now = clock_now();
	if (gc->state == GC_SWEEP && gc->jobs->runtime->stopping)
		sweep_stop(&gc->sweep);
	else if (gc->state == GC_SWEEP)
		sweep_tick(&gc->sweep);
	if (gc->jobs->runtime->stopping || gc->state != GC_IDLE || now < gc->retry_ns)
		return;
	if (now >= gc->walk_ns) {
		gc->walk_ns = now + WALK_EVERY;
		want_litter(gc, "");
	}
	next_round(gc);
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

int gc_new(struct jobs *jobs, struct gc **out, struct err *err)
{
	struct gc *gc = calloc(1, sizeof(*gc));
	if (!gc)
		return err_set(err, -ENOMEM, "no memory to collect what is to go");
	gc->jobs = jobs;
	gc->job_dir = gc->directory_lock = -1;
	list_init(&gc->wishes);
	int rc = pool_new(1, &gc->pool, err);
	if (rc) {
		free(gc);
		return rc;
	}
	*out = gc;
	return 0;
}

void gc_free(struct gc *gc)
{
	if (!gc)
		return;
	pool_free(gc->pool);
	gc_plan_free(gc->plan);
	for (struct list *node; (node = list_pop(&gc->wishes));)
		free(list_entry(node, struct wish, link));
	free(gc);
}

int gc_event_fd(struct gc *gc)
{
	return pool_event_fd(gc->pool);
}

void gc_poll(struct gc *gc)
{
	if (gc)
		pool_poll(gc->pool);
}

bool gc_idle(const struct gc *gc)
{
	return !gc || gc->state == GC_IDLE;
}
