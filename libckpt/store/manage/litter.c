#include "store/manage/litter.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEMPORARY ".tmp-"                   /* disk_put_file */
#define TEMPORARY_MANIFEST ".MANIFEST.json" /* of a commit */

struct walk {
	struct repo *repo;
	int dir; /* that is listed */
	struct litter at;
	struct litter *list;
	size_t n, cap;
	bool committed;     /* the directory that is listed has a manifest */
	uint64_t newest_ns; /* when anything in it was last written */
};

static bool begins(const char *name, const char *prefix)
{
	return !strncmp(name, prefix, strlen(prefix));
}

/* When it was moved aside stands at the end of its name; 0: it does not. */
static uint64_t moved_at(const char *name)
{
	const char *dot = strrchr(name, '.');
	char *end;
	errno = 0;
	uint64_t ns = dot ? strtoull(dot + 1, &end, 16) : 0;
	return dot && !*end && !errno ? ns : 0;
}

static int add(struct walk *w, enum litter_kind kind, const char *name, uint64_t since)
{
	if (w->n == w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 16;
		struct litter *grown = reallocarray(w->list, cap, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		w->list = grown;
		w->cap = cap;
	}
	struct litter *l = &w->list[w->n++];
	*l = w->at;
	l->kind = kind;
	l->since_ns = since;
	snprintf(l->name, sizeof(l->name), "%s", name);
	return 0;
}

/* What is not there any more, or something else by that name. */
static bool gone(int rc)
{
	return rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP;
}

static int list_dir(struct walk *w, const char *name, int (*fn)(void *arg, const char *name))
{
	int above = w->dir;
	int dir = disk_open_at(w->repo->disk, above, name, DISK_DIR);
	if (dir < 0)
		return gone(dir) ? 0 : dir;
	w->dir = dir;
	int rc = disk_list(w->repo->disk, dir, fn, w);
	w->dir = above;
	disk_close_file(w->repo->disk, dir);
	return rc;
}

static int in_checkpoint(void *arg, const char *name)
{
	struct walk *w = arg;
	struct disk_stat st;
	w->committed = w->committed || !strcmp(name, NAME_MANIFEST);
	if (!begins(name, TEMPORARY) && !begins(name, TEMPORARY_MANIFEST))
		return 0;
	int rc = disk_stat_at(w->repo->disk, w->dir, name, &st);
	if (rc < 0 || st.is_dir)
		return rc == -ENOENT ? 0 : rc;
	return add(w, LITTER_TEMPORARY, name, st.mtime_ns);
}

static int note_age(void *arg, const char *name)
{
	struct walk *w = arg;
	struct disk_stat st;
	int rc = disk_stat_at(w->repo->disk, w->dir, name, &st);
	if (!rc && st.mtime_ns > w->newest_ns)
		w->newest_ns = st.mtime_ns;
	return rc == -ENOENT ? 0 : rc;
}

/* What makes it a checkpoint is asked for by its name: a list may lack what is there. */
static int ask_for_manifest(struct walk *w, const char *name)
{
	struct disk_stat st;
	int dir = disk_open_at(w->repo->disk, w->dir, name, DISK_DIR);
	if (dir < 0)
		return gone(dir) ? 0 : dir;
	int rc = disk_stat_at(w->repo->disk, dir, NAME_MANIFEST, &st);
	disk_close_file(w->repo->disk, dir);
	w->committed = !rc;
	return rc == -ENOENT ? 0 : rc;
}

/* A directory of a checkpoint that is none. named: an older release wrote it under its final name, so that a manifest makes it one. */
static int unfinished(struct walk *w, const char *name, bool named)
{
	struct disk_stat st;
	int rc = disk_stat_at(w->repo->disk, w->dir, name, &st);
	if (rc || !st.is_dir)
		return rc == -ENOENT ? 0 : rc;
	w->newest_ns = st.mtime_ns;
	rc = list_dir(w, name, note_age);
	if (!rc && named)
		rc = ask_for_manifest(w, name);
	return rc || (named && w->committed) ? rc : add(w, LITTER_UNFINISHED, name, w->newest_ns);
}

static int in_step(struct walk *w, const char *name)
{
	w->committed = false;
	snprintf(w->at.dir, sizeof(w->at.dir), "%s", name);
	int rc = list_dir(w, name, in_checkpoint);
	w->at.dir[0] = 0;
	return rc || w->committed ? rc : unfinished(w, name, true);
}

static int in_job(void *arg, const char *name)
{
	struct walk *w = arg;
	struct disk_stat st;
	struct step_id id;
	if (name[0] != '.')
		return name_parse_dir(name, &id) < 0 ? 0 : in_step(w, name);
	if (begins(name, NAME_WORK_PREFIX))
		return unfinished(w, name, false);
	enum litter_kind kind = begins(name, REPO_TRASH) ? LITTER_TRASH : LITTER_ABANDONED;
	if (kind == LITTER_ABANDONED && !begins(name, REPO_ABANDONED))
		return in_checkpoint(arg, name);
	int rc = disk_stat_at(w->repo->disk, w->dir, name, &st);
	if (rc < 0 || !st.is_dir)
		return rc == -ENOENT ? 0 : rc;
	uint64_t moved = moved_at(name);
	return add(w, kind, name, moved ? moved : st.mtime_ns);
}

static int in_root(void *arg, const char *name)
{
	struct walk *w = arg;
	if (name_check("job", name, NAME_JOB_MAX, NULL) < 0)
		return in_checkpoint(arg, name);
	snprintf(w->at.job, sizeof(w->at.job), "%s", name);
	int rc = list_dir(w, name, in_job);
	w->at.job[0] = 0;
	return rc;
}

int litter_find(struct repo *repo, const char *job, struct litter **out, size_t *n, struct err *err)
{
	struct walk w = {.repo = repo, .dir = repo->root};
	*out = NULL;
	*n = 0;
	int rc = job ? in_root(&w, job) : disk_list(repo->disk, repo->root, in_root, &w);
	if (rc < 0) {
		free(w.list);
		return err_set(err, rc, "cannot look for litter in %s: %s", repo->path, err_name(rc));
	}
	*out = w.list;
	*n = w.n;
	return 0;
}

static int make_file(struct repo *repo, const char *name)
{
	struct disk_op op = {.kind = DISK_OPEN, .dir = repo->root, .name = name, .flags = DISK_CREATE};
	int file = disk_do(repo->disk, &op);
	return file < 0 ? file : disk_close_file(repo->disk, file);
}

uint64_t litter_now(struct repo *repo)
{
	char name[64];
	struct disk_stat st;
	uint64_t now = clock_wall();
	snprintf(name, sizeof(name), TEMPORARY "now.%lx", (unsigned long)now);
	if (make_file(repo, name))
		return now;
	int rc = disk_stat_at(repo->disk, repo->root, name, &st);
	disk_do(repo->disk, &(struct disk_op){.kind = DISK_UNLINK, .dir = repo->root, .name = name});
	return rc ? now : min_u64(now, st.mtime_ns);
}

bool litter_due(const struct litter *l, uint64_t now, uint64_t older_ns)
{
	if (l->kind == LITTER_TRASH)
		return true;
	if (l->kind == LITTER_TEMPORARY || l->kind == LITTER_UNFINISHED)
		older_ns = max_u64(older_ns, LITTER_TEMPORARY_NS);
	return now >= l->since_ns && now - l->since_ns >= older_ns;
}

int litter_unlink(struct repo *repo, const struct litter *l, struct err *err)
{
	int job = l->job[0] ? disk_open_at(repo->disk, repo->root, l->job, DISK_DIR) : repo->root, dir = job;
	if (job >= 0 && l->dir[0])
		dir = disk_open_at(repo->disk, job, l->dir, DISK_DIR);
	struct disk_op op = {.kind = DISK_UNLINK, .dir = dir, .name = l->name};
	int rc = dir < 0 ? dir : disk_do(repo->disk, &op);
	if (dir >= 0 && dir != job)
		disk_close_file(repo->disk, dir);
	if (job >= 0 && job != repo->root)
		disk_close_file(repo->disk, job);
	if (rc >= 0 || rc == -ENOENT)
		return 0;
	return err_set(err, rc, "cannot remove %s/%s%s%s%s%s: %s", repo->path, l->job, *l->job ? "/" : "", l->dir,
		       *l->dir ? "/" : "", l->name, err_name(rc));
}

const char *litter_word(enum litter_kind kind)
{
	static const char *const words[] = {[LITTER_TRASH] = "trash",
					    [LITTER_ABANDONED] = "abandoned",
					    [LITTER_UNFINISHED] = "unfinished",
					    [LITTER_TEMPORARY] = "temporary"};
	return words[kind];
}
