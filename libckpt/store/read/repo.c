#include "store/read/repo.h"

#include "base/cleanup.h"
#include "store/disk/denied.h"
#include "store/read/listing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARK_MAX = 4096 };

/* ---- open, create */

static int is_step(void *arg, const char *name)
{
	struct step_id id;
	(void)arg;
	return name_parse_dir(name, &id) >= 0;
}

/* 1: a directory that looks like a job's, with a checkpoint in it. */
static int is_job(void *arg, const char *name)
{
	const struct repo *repo = arg;
	if (name_check("job", name, NAME_JOB_MAX, NULL) < 0)
		return 0;
	int dir = disk_open_at(repo->disk, repo->root, name, DISK_DIR);
	int found = dir < 0 ? 0 : disk_list(repo->disk, dir, is_step, NULL);
	if (dir >= 0)
		disk_close_file(repo->disk, dir);
	return found > 0;
}

/* What lost its mark alone is to have it again: whoever gives another directory begins at step 0. */
static int lost_mark(const struct repo *repo, int rc, struct err *err)
{
	return err_set(err, rc,
		       "%s has checkpoints, but its file %s is missing, without which it is not a repository. Make it "
		       "again: echo '%.*s' > '%s/%s'",
		       repo->path, REPO_MARK, (int)strlen(REPO_MARK_TEXT) - 1, REPO_MARK_TEXT, repo->path, REPO_MARK);
}

static int no_mark(struct repo *repo, struct err *err)
{
	if (disk_list(repo->disk, repo->root, is_job, repo) > 0)
		return lost_mark(repo, -ENOENT, err);
	return err_set(err, -ENOENT, "%s is not a repository: it has no file %s", repo->path, REPO_MARK);
}

static int check_mark(struct repo *repo, struct err *err)
{
	AUTO_FREE void *text = NULL;
	size_t len;
	struct err why = {0};
	int rc = disk_read_file(repo->disk, repo->root, REPO_MARK, MARK_MAX, &text, &len, &why);
	if (rc == -ENOENT)
		return no_mark(repo, err);
	if (rc < 0)
		return err_set(err, rc, "%s: %s", repo->path, why.text);
	if (strncmp(text, REPO_MARK_KIND, strlen(REPO_MARK_KIND)))
		return err_set(err, -EBADMSG,
			       "%s/%s is damaged: it has to begin with the line \"%.*s\". Write that line into it if "
			       "this is the store of this ckpt",
			       repo->path, REPO_MARK, (int)strlen(REPO_MARK_TEXT) - 1, REPO_MARK_TEXT);
	if (strncmp(text, REPO_MARK_TEXT, strlen(REPO_MARK_TEXT)))
		return err_set(err, -EPROTONOSUPPORT, "%s/%s is of another version: this ckpt reads \"%.*s\"",
			       repo->path, REPO_MARK, (int)strlen(REPO_MARK_TEXT) - 1, REPO_MARK_TEXT);
	return 0;
}

static int open_root(const char *path, struct repo *repo, struct err *err)
{
	*repo = (struct repo){.root = -1, .path = strdup(path)};
	if (!repo->path)
		return err_set(err, -ENOMEM, "out of memory");
	return disk_new(path, &repo->disk, &repo->root, err);
}

int repo_open(const char *path, struct repo *repo, struct err *err)
{
	int rc = open_root(path, repo, err);
	if (rc == -ENOENT)
		err_set(err, rc, "there is no repository at %s: no such directory", path);
	if (!rc)
		rc = check_mark(repo, err);
	if (rc < 0)
		repo_close(repo);
	return rc;
}

void repo_close(struct repo *repo)
{
	disk_free(repo->disk);
	free(repo->path);
	*repo = (struct repo){.root = -1};
}

static int is_foreign(void *arg, const char *name)
{
	if (!strcmp(name, "lost+found") || !strncmp(name, ".tmp-" REPO_MARK, strlen(".tmp-" REPO_MARK)))
		return 0;
	*(bool *)arg = true;
	return 1;
}

static int put_mark(struct repo *repo, struct err *err)
{
	bool foreign = false;
	int rc = disk_list(repo->disk, repo->root, is_foreign, &foreign);
	if (rc < 0)
		return err_set(err, rc, "cannot list %s: %s", repo->path, err_name(rc));
	if (foreign && disk_list(repo->disk, repo->root, is_job, repo) > 0)
		return lost_mark(repo, -ENOTEMPTY, err);
	if (foreign)
		return err_set(err, -ENOTEMPTY,
			       "%s is not empty and not a repository: give an empty or a new directory", repo->path);
	return disk_put_file(repo->disk, repo->root, REPO_MARK, REPO_MARK_TEXT, strlen(REPO_MARK_TEXT), false, err);
}

/* Of those who make it at the same time one puts the mark; all others find that it stands there, or what the first one already does behind
 * it. */
static int found_made(struct repo *repo, int rc, struct err *err)
{
	struct err why = {0};
	if ((rc != -EEXIST && rc != -ENOTEMPTY) || check_mark(repo, &why) < 0)
		return rc;
	rc = disk_fsync(repo->disk, repo->root);
	return rc < 0 ? err_set(err, rc, "cannot fsync %s: %s", repo->path, err_name(rc)) : 0;
}

/* Makes the directory in its parent, which must exist. Nobody else may look into it yet. */
static int make_root(const char *path, struct err *err)
{
	AUTO_FREE char *copy = strdup(path);
	if (!copy)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--)
		copy[n - 1] = 0;
	char *slash = strrchr(copy, '/');
	const char *name = slash ? slash + 1 : copy, *parent = !slash ? "." : slash == copy ? "/" : copy;
	struct disk *disk;
	int dir;
	if (slash && slash != copy)
		*slash = 0;
	int rc = disk_new(parent, &disk, &dir, err);
	if (rc < 0)
		return err_prefix(err, rc, "cannot make the repository %s", path);
	struct disk_op make = {.kind = DISK_MKDIR, .dir = dir, .name = name, .flags = DISK_PRIVATE};
	rc = disk_do(disk, &make);
	if (!rc || rc == -EEXIST) /* it was not there a moment ago: ours, and the answer was lost, or somebody else's */
		rc = disk_fsync(disk, dir);
	struct disk_op undo = {.kind = DISK_RMDIR, .dir = dir, .name = name};
	if (rc < 0)
		disk_do(disk, &undo); /* so that the next try does not take it for durable */
	if (rc < 0) {
		err_set(err, rc, "cannot make the repository %s: %s", path, err_name(rc));
		denied_dir(disk, dir, rc, err);
	}
	disk_free(disk);
	return rc;
}

static int open_up(struct repo *repo, uint32_t mode, struct err *err)
{
	int rc = disk_chmod(repo->disk, repo->root, mode);
	return rc < 0 ? err_set(err, rc, "cannot give %s the mode %04o: %s", repo->path, mode, err_name(rc)) : 0;
}

int repo_create(const char *path, struct err *err)
{
	return repo_create_mode(path, 0700, err);
}

int repo_create_mode(const char *path, uint32_t mode, struct err *err)
{
	struct repo repo;
	int rc = open_root(path, &repo, err);
	if (rc == -ENOENT) {
		repo_close(&repo);
		rc = make_root(path, err);
		if (rc < 0)
			return rc;
		rc = open_root(path, &repo, err);
		if (!rc)
			rc = open_up(&repo, mode, err);
	}
	if (!rc)
		rc = check_mark(&repo, err);
	if (rc == -ENOENT)
		rc = found_made(&repo, put_mark(&repo, err), err);
	repo_close(&repo);
	return rc;
}

/* ---- scan */

struct scan {
	struct repo *repo;
	const char *job;
	int job_dir;
	bool one; /* a link or a file in the place of this job may stand for all that it has saved; among all jobs it is none */
	const struct listings *known; /* NULL: none */
	struct listings of_job;
	struct checkpoint_ref *refs;
	size_t n, cap;
	struct err *err; /* never NULL; empty until a callback fails */
};

static int add_ref(struct scan *s, const struct checkpoint_ref *ref)
{
	if (s->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 64;
		struct checkpoint_ref *refs = reallocarray(s->refs, cap, sizeof(*refs));
		if (!refs)
			return err_set(s->err, -ENOMEM, "no memory for a list of %zu checkpoints", cap);
		s->refs = refs;
		s->cap = cap;
	}
	s->refs[s->n++] = *ref;
	return 0;
}

static int add_known(struct scan *s, const struct listing *listing)
{
	struct checkpoint_ref ref = {.id = listing->id,
				     .state = CHECKPOINT_COMMITTED,
				     .committed_ns = listing->committed_ns,
				     .listing = listing};
	snprintf(ref.job, sizeof(ref.job), "%s", s->job);
	return add_ref(s, &ref);
}

static int scan_checkpoint(void *arg, const char *name)
{
	struct scan *s = arg;
	struct disk *disk = s->repo->disk;
	struct checkpoint_ref ref = {.state = CHECKPOINT_PARTIAL};
	struct disk_stat st;
	if (name_parse_dir(name, &ref.id) < 0)
		return 0;
	const struct listing *known = listings_find(s->of_job, ref.id);
	if (known && listing_holds(known, disk, s->job_dir, name))
		return add_known(s, known);
	int dir = disk_open_at(disk, s->job_dir, name, DISK_DIR);
	if (dir == -ENOENT) /* removed since it was listed */
		return 0;
	if (dir == -ENOTDIR || dir == -ELOOP) {
		s->repo->strange++;
		return 0;
	}
	if (dir < 0)
		return err_set(s->err, dir, "cannot open %s/%s/%s: %s", s->repo->path, s->job, name, err_name(dir));
	int rc = disk_stat_at(disk, dir, NAME_MANIFEST, &st);
	disk_close_file(disk, dir);
	if (rc < 0 && rc != -ENOENT)
		return err_set(s->err, rc, "cannot look into %s/%s/%s: %s", s->repo->path, s->job, name, err_name(rc));
	if (!rc) {
		ref.state = CHECKPOINT_COMMITTED;
		ref.committed_ns = st.mtime_ns;
	} else if (disk_stat_at(disk, s->job_dir, name, &st) == -ENOENT) {
		return 0; /* its deletion has begun since it was opened */
	}
	snprintf(ref.job, sizeof(ref.job), "%s", s->job);
	return add_ref(s, &ref);
}

static int scan_job(void *arg, const char *name)
{
	struct scan *s = arg;
	if (name_check("job", name, NAME_JOB_MAX, NULL) < 0)
		return 0;
	s->job_dir = disk_open_at(s->repo->disk, s->repo->root, name, DISK_DIR);
	bool other = s->job_dir == -ENOTDIR || s->job_dir == -ELOOP;
	if (s->job_dir == -ENOENT || (other && !s->one))
		return 0;
	if (other)
		return err_set(s->err, -ENOTDIR, "%s/%s is no directory: a job's directory may not be a link",
			       s->repo->path, name);
	if (s->job_dir < 0)
		return err_set(s->err, s->job_dir, "cannot open %s/%s: %s", s->repo->path, name, err_name(s->job_dir));
	s->job = name;
	s->of_job = listings_of(s->known, name);
	int rc = disk_list(s->repo->disk, s->job_dir, scan_checkpoint, s);
	if (rc < 0 && !s->err->text[0])
		err_set(s->err, rc, "cannot list %s/%s: %s", s->repo->path, name, err_name(rc));
	disk_close_file(s->repo->disk, s->job_dir);
	return rc;
}

static int by_job_and_age(const void *a, const void *b)
{
	const struct checkpoint_ref *x = a, *y = b;
	int order = strcmp(x->job, y->job);
	return order ? order : step_compare(x->id, y->id);
}

int repo_scan(struct repo *repo, const char *job, struct checkpoint_ref **out, size_t *n, struct err *err)
{
	return repo_scan_known(repo, job, NULL, out, n, err);
}

int repo_scan_known(struct repo *repo, const char *job, const struct listings *known, struct checkpoint_ref **out,
		    size_t *n, struct err *err)
{
	struct err why = {0};
	struct scan s = {.repo = repo, .one = job, .known = known, .err = &why};
	*out = NULL;
	*n = 0;
	repo->strange = 0;
	int rc = job ? scan_job(&s, job) : disk_list(repo->disk, repo->root, scan_job, &s);
	if (rc < 0) {
		free(s.refs);
		return why.text[0] ? err_set(err, rc, "%s", why.text)
				   : err_set(err, rc, "cannot list %s: %s", repo->path, err_name(rc));
	}
	if (s.n)
		qsort(s.refs, s.n, sizeof(*s.refs), by_job_and_age);
	*out = s.refs;
	*n = s.n;
	return 0;
}
