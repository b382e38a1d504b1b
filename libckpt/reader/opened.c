#include "reader/reader.h"

#include "base/args.h"
#include "base/cleanup.h"
#include "base/quoted.h"
#include "store/manage/pick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- which one --------------------------------------------------------------------------------------------------- */

/* NULL: the environment says none. */
static int find_job(const char *given, const char **job, struct err *err)
{
	*job = given ? given : getenv("CKPT_JOB");
	if (*job && !**job && !given)
		*job = NULL;
	return *job ? name_check("job", *job, NAME_JOB_MAX, err) : 0;
}

/* Refs of several jobs: they are named, as far as there is room. */
static int check_single(const struct checkpoint_ref *refs, size_t n, struct err *err)
{
	char names[256];
	size_t used = 0;
	bool several = false;
	for (size_t i = 0; i < n && used < sizeof(names); i++) {
		if (i && !strcmp(refs[i].job, refs[i - 1].job))
			continue;
		several |= i != 0;
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "", refs[i].job);
	}
	return several ? err_set(err, -ENOTUNIQ, "the store has several jobs, name one: %s", names) : 0;
}

/* A job that is not there has no checkpoints; where others are, its name was mistyped. */
static int check_there(struct repo *repo, const char *job, struct err *err)
{
	int dir = disk_open_at(repo->disk, repo->root, job, DISK_DIR);
	if (dir == -ENOENT)
		return err_set(err, -ENOENT, "there is no job %s in %s", job, repo->path);
	if (dir >= 0)
		disk_close_file(repo->disk, dir);
	return 0;
}

static int find(struct repo *repo, const char *job, struct pick *pick, struct checkpoint_ref *ref, struct err *err)
{
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	size_t n;
	int rc = job ? check_there(repo, job, err) : 0;
	if (!rc)
		rc = repo_scan(repo, job, &refs, &n, err);
	if (!rc)
		rc = check_single(refs, n, err);
	if (rc)
		return rc;
	job = job ? job : n ? refs[0].job : NULL;
	rc = job ? pick_resolve(repo, job, pick, err) : 0;
	if (rc == -ENOENT)
		return err_set(err, rc, "there is no tag %s in job %s", quoted(pick->text).text, job);
	return rc ? rc : pick_among(repo, pick, refs, n, ref, err);
}

/* ---- open -------------------------------------------------------------------------------------------------------- */

static int fill(ckpt_reader *r, const char *job, struct pick *pick, struct err *err)
{
	struct checkpoint_ref ref;
	int rc = find(&r->repo, job, pick, &ref, err);
	if (!rc)
		rc = checkpoint_open(&r->repo, ref.job, ref.id, &r->ck, err);
	if (rc)
		return rc;
	ref = r->ck.ref;
	if (!reader_describe(&r->repo, &ref, &r->listed))
		return err_set(err, -ENOENT, "%s was removed while it was opened", pick->text);
	r->listed.face.job = r->listed.job;
	r->listed.face.name = r->listed.name;
	if (asprintf(&r->path, "%s/%s/%s", r->repo.path, r->listed.job, r->listed.name) < 0) {
		r->path = NULL;
		return err_set(err, -ENOMEM, "no memory for a path");
	}
	return reader_tensors_make(r, err);
}

static int check_options(const ckpt_reader_options *opts, ckpt_reader_options *out, struct err *err)
{
	*out = CKPT_INIT(ckpt_reader_options);
	int rc = opts ? args_take(out, sizeof(*out), sizeof(*out), opts, "ckpt_reader_options", err) : 0;
	if (rc)
		return rc;
	return out->threads < 0
		       ? err_set(err, -EINVAL, "ckpt_reader_options.threads is %d, not 0 or more", out->threads)
		       : 0;
}

static int open_reader(const ckpt_reader_options *opts, ckpt_reader **out, struct err *err)
{
	ckpt_reader_options o;
	struct pick pick;
	const char *store, *job;
	int rc = check_options(opts, &o, err);
	if (!rc)
		rc = reader_store(o.store, &store, err);
	if (!rc)
		rc = find_job(o.job, &job, err);
	if (!rc)
		rc = pick_parse(o.which, &pick, err);
	if (rc)
		return rc;
	ckpt_reader *r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(err, -ENOMEM, "no memory for a reader");
	r->pid = getpid();
	r->opts = o;
	r->ck.dir = r->repo.root = -1;
	pthread_mutex_init(&r->lock, NULL);
	rc = repo_open(store, &r->repo, err);
	if (!rc)
		rc = fill(r, job, &pick, err);
	if (rc)
		ckpt_reader_close(r);
	else
		*out = r;
	return rc;
}

int ckpt_reader_open(const ckpt_reader_options *opts, ckpt_reader **out)
{
	struct err err = {0};
	int rc = out ? 0 : err_set(&err, -EINVAL, "`out` is NULL: ckpt_reader_open has nowhere to put the reader");
	if (out)
		*out = NULL;
	if (!rc)
		rc = open_reader(opts, out, &err);
	return rc ? reader_fail(rc, &err) : 0;
}

/* In a child the descriptors are the parent's as well, and its rings are shared: only memory is given back. */
void ckpt_reader_close(ckpt_reader *r)
{
	if (!r || r->pid != getpid())
		return;
	lanes_free(r);
	free(r->tensors);
	contents_free(&r->contents);
	checkpoint_close(&r->ck);
	repo_close(&r->repo);
	pthread_mutex_destroy(&r->lock);
	free(r->path);
	free(r);
}

const ckpt_reader_checkpoint *ckpt_reader_info(const ckpt_reader *r)
{
	struct err err = {0};
	if (r)
		return &r->listed.face;
	reader_fail(reader_check(r, &err), &err);
	return NULL;
}

const char *ckpt_reader_path(const ckpt_reader *r)
{
	struct err err = {0};
	if (r)
		return r->path;
	reader_fail(reader_check(r, &err), &err);
	return NULL;
}
