#include "upkeep/gc_plan.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "store/manage/keeping.h"
#include "store/manage/litter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NULL: no room. */
static struct gc_victim *add_victim(struct gc_plan *p, const char *name, const char *trash)
{
	if (p->nvictims == GC_VICTIMS_MAX) {
		p->more = true;
		return NULL;
	}
	struct gc_victim *v = &p->victims[p->nvictims++];
	*v = (struct gc_victim){.moved = !name};
	snprintf(v->name, sizeof(v->name), "%s", name ? name : "");
	if (trash)
		snprintf(v->trash, sizeof(v->trash), "%s", trash);
	else
		trash_name(name, clock_wall(), v->trash);
	return v;
}

/* ---- retention */

/* Once for each such run: later it is known. */
static void tell_earlier(struct gc_plan *p, const struct keeping *k)
{
	uint32_t began = k->n ? k->items[k->n - 1].began : 0;
	size_t earlier = 0;
	for (size_t i = 0; i < k->n; i++)
		earlier += (k->items[i].keep & RETENTION_EARLIER) != 0;
	if (!earlier || began == p->earlier_told)
		return;
	p->earlier_told = began;
	log_warn("job %s began in epoch %u without restoring what was there: %zu checkpoints of earlier epochs "
		 "stay until ckpt forget names them, or is told --earlier-runs",
		 p->job, began, earlier);
}

static void apply(struct gc_plan *p, struct keeping *k)
{
	for (size_t i = 0; i < k->n; i++)
		for (size_t u = 0; u < p->nused; u++)
			k->items[i].in_use |= !step_compare(k->items[i].id, p->used[u]);
	retention_apply(&p->policy, clock_wall(), k->items, k->n);
	tell_earlier(p, k);
	if (k->blind)
		log_warn("job %s: %u tags cannot be read: no checkpoint is removed until they are set anew or deleted",
			 p->job, k->blind);
	for (size_t i = 0; i < k->n && !p->more; i++) {
		char name[NAME_DIR_MAX];
		if (k->items[i].keep)
			continue;
		name_dir(k->items[i].id, name);
		struct gc_victim *v = add_victim(p, name, NULL);
		if (!v)
			return;
		v->checkpoint = true;
		v->id = k->items[i].id;
	}
}

static int retain(struct gc_plan *p)
{
	struct keeping k;
	int rc = keeping_load(&p->repo, p->job, &k, &p->err);
	if (rc)
		return rc;
	apply(p, &k);
	if (p->nvictims)
		rc = keeping_settle(&p->repo, p->job, &k, &p->err);
	keeping_free(&k);
	return rc;
}

/* ---- litter */

static void unlink_temporary(struct gc_plan *p, const struct litter *l)
{
	struct err err = {{0}};
	if (litter_unlink(&p->repo, l, &err))
		log_warn("%s", err.text);
}

static void note_dirty(struct gc_plan *p, const char *job)
{
	for (size_t i = 0; i < p->ndirty; i++)
		if (!strcmp(p->dirty[i], job))
			return;
	char(*grown)[NAME_JOB_MAX] = reallocarray(p->dirty, p->ndirty + 1, sizeof(*grown));
	if (!grown)
		return; /* the next walk finds it */
	p->dirty = grown;
	snprintf(p->dirty[p->ndirty++], NAME_JOB_MAX, "%s", job);
}

static void take_litter(struct gc_plan *p, const struct litter *l)
{
	if (l->kind == LITTER_TEMPORARY)
		unlink_temporary(p, l);
	else if (!p->job[0])
		note_dirty(p, l->job);
	else if (l->kind == LITTER_TRASH)
		add_victim(p, NULL, l->name);
	else
		add_victim(p, l->name, NULL);
}

static int collect_litter(struct gc_plan *p)
{
	AUTO_FREE struct litter *list = NULL;
	size_t n;
	int rc = litter_find(&p->repo, p->job[0] ? p->job : NULL, &list, &n, &p->err);
	uint64_t now = !rc && n ? litter_now(&p->repo) : 0;
	for (size_t i = 0; !rc && i < n; i++)
		if (litter_due(&list[i], now, p->collect_after_ns))
			take_litter(p, &list[i]);
	return rc;
}

/* ---- files */

/* What cannot be listed is swept as far as it can. */
static void list_files(struct gc_plan *p, int job, struct gc_victim *v)
{
	int dir = disk_open_at(p->repo.disk, job, v->name[0] ? v->name : v->trash, DISK_DIR);
	if (dir < 0)
		return;
	if (trash_files(p->repo.disk, dir, &v->files, &v->nfiles) < 0)
		v->nfiles = 0;
	disk_close_file(p->repo.disk, dir);
	struct trash_file *less = v->nfiles ? reallocarray(v->files, v->nfiles, sizeof(*less)) : NULL;
	v->files = less ? less : v->files;
}

static int list_all(struct gc_plan *p)
{
	int job = disk_open_at(p->repo.disk, p->repo.root, p->job, DISK_DIR);
	if (job < 0)
		return err_set(&p->err, job, "cannot open %s/%s: %s", p->store, p->job, err_name(job));
	for (size_t i = 0; i < p->nvictims; i++)
		list_files(p, job, &p->victims[i]);
	disk_close_file(p->repo.disk, job);
	return 0;
}

/* ---- */

static int make(struct gc_plan *p)
{
	int rc = failpoint("gc.plan", NULL);
	if (rc)
		return err_set(&p->err, rc, "cannot read the store");
	rc = repo_open(p->store, &p->repo, &p->err);
	if (rc)
		return rc;
	p->open = true;
	rc = p->lock = trash_lock(&p->repo, 0, &p->err);
	rc = rc < 0 ? rc : 0;
	if (!rc && p->retain)
		rc = retain(p);
	if (!rc && p->litter)
		rc = collect_litter(p);
	if (!rc && p->nvictims)
		rc = list_all(p);
	return rc;
}

void gc_plan_make(struct gc_plan *p)
{
	p->lock = -1;
	p->rc = make(p);
	if (p->rc || !p->nvictims)
		gc_plan_unlock(p);
}

void gc_plan_unlock(struct gc_plan *p)
{
	if (!p->open)
		return;
	if (p->lock >= 0)
		disk_close_file(p->repo.disk, p->lock);
	repo_close(&p->repo);
	p->open = false;
}

void gc_plan_free(struct gc_plan *p)
{
	if (!p)
		return;
	if (p->open)
		repo_close(&p->repo);
	for (size_t i = 0; i < p->nvictims; i++)
		free(p->victims[i].files);
	free(p->dirty);
	free(p);
}
