#include "frame/target.h"

#include "frame/jobs.h"
#include "frame/output.h"

#include "base/cleanup.h"
#include "store/manage/pick.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int exit_code_of(int rc)
{
	switch (rc) {
	case 0:
		return EXIT_OK;
	case -EBADMSG:
	case -EIO:
		return EXIT_CORRUPT;
	case -ECANCELED:
		return EXIT_CANCELLED;
	case -EWOULDBLOCK:
		return EXIT_LOCKED;
	default:
		return EXIT_FAILED;
	}
}

int cli_repo(struct cli *cli)
{
	if (cli->repo)
		return EXIT_OK;
	const char *path = cli_text(cli, "repo");
	if (!path)
		path = getenv("CKPT_REPO");
	if (!path || !*path)
		return cli_fail(cli, EXIT_NO_REPO, "no repository was named: give --repo DIR or set CKPT_REPO");
	struct repo *repo = calloc(1, sizeof(*repo));
	if (!repo)
		return cli_fail(cli, EXIT_FAILED, "out of memory");
	struct err err = {0};
	int rc = repo_open(path, repo, &err);
	if (rc) {
		free(repo);
		return cli_fail(cli, rc == -ENOENT || rc == -ENOTDIR ? EXIT_NO_REPO : EXIT_FAILED, "%s", err.text);
	}
	cli->repo = repo;
	return EXIT_OK;
}

void cli_repo_close(struct cli *cli)
{
	if (!cli->repo)
		return;
	repo_close(cli->repo);
	free(cli->repo);
	cli->repo = NULL;
}

int cli_job(const struct cli *cli, const char **job)
{
	struct err err = {0};
	const char *from = "--job";
	*job = cli_text(cli, "job");
	if (!*job) {
		*job = getenv("CKPT_JOB");
		from = "CKPT_JOB";
	}
	if (*job && !**job)
		*job = NULL;
	if (*job && name_check(from, *job, NAME_JOB_MAX, &err))
		return cli_fail(cli, EXIT_USAGE, "%s", err.text);
	return EXIT_OK;
}

/* Whether all refs are of one job; else says which jobs there are. */
static int check_single_job(const struct cli *cli, const struct checkpoint_ref *refs, size_t n)
{
	char names[JOBS_TEXT_MAX];
	bool several = false;
	for (size_t i = 1; i < n; i++)
		several |= strcmp(refs[i].job, refs[i - 1].job) != 0;
	if (!several)
		return EXIT_OK;
	return cli_fail(cli, EXIT_USAGE, "the repository holds several jobs: give --job, one of %s",
			jobs_text(refs, n, names));
}

int cli_repo_job(struct cli *cli, const char **job)
{
	int code = cli_job(cli, job);
	if (!code)
		code = cli_repo(cli);
	return code ? code : jobs_check(cli, cli->repo, *job);
}

int cli_scan(struct cli *cli, struct checkpoint_ref **refs, size_t *n)
{
	struct err err = {0};
	const char *job;
	*refs = NULL;
	int code = cli_repo_job(cli, &job);
	if (code)
		return code;
	int rc = repo_scan(cli->repo, job, refs, n, &err);
	return rc ? cli_fail(cli, exit_code_of(rc), "%s", err.text) : EXIT_OK;
}

int cli_scan_job(struct cli *cli, struct checkpoint_ref **refs, size_t *n)
{
	int code = cli_scan(cli, refs, n);
	if (!code)
		code = check_single_job(cli, *refs, *n);
	if (code)
		free(steal_ptr(refs));
	return code;
}

/* ---- which checkpoint */

int cli_open_named(struct cli *cli, const char *text, struct checkpoint *ck)
{
	struct checkpoint_ref ref;
	struct err err = {0};
	int code = cli_pick(cli, text, &ref);
	if (code)
		return code;
	int rc = checkpoint_open(cli->repo, ref.job, ref.id, ck, &err);
	return rc < 0 ? cli_fail(cli, exit_code_of(rc), "%s", err.text) : EXIT_OK;
}

char *text_checkpoint(const struct checkpoint_ref *ref, char *dst, size_t size)
{
	char name[NAME_DIR_MAX];
	name_dir(ref->id, name);
	snprintf(dst, size, "%s/%s", ref->job, name);
	return dst;
}

int cli_open(struct cli *cli, struct checkpoint *ck)
{
	return cli_open_named(cli, cli->nargs ? cli->args[0] : NULL, ck);
}

json_t *json_checkpoint(const struct cli *cli, const struct checkpoint_ref *ref)
{
	char name[NAME_DIR_MAX];
	json_t *doc = json_document(cli);
	name_dir(ref->id, name);
	json_object_set_new(doc, "job", json_text(ref->job));
	json_object_set_new(doc, "step", json_integer((json_int_t)ref->id.step));
	json_object_set_new(doc, "epoch", json_integer(ref->id.epoch));
	json_object_set_new(doc, "name", json_text(name));
	return doc;
}

int cli_say_none(const struct cli *cli)
{
	const char *job;
	cli_job(cli, &job);
	return cli_fail(cli, EXIT_NONE_RESTORABLE, "there is no committed checkpoint%s%s in %s", job ? " of job " : "",
			job ? job : "", cli->repo->path);
}

/* Those of pick.h. */
static int pick_code(int rc)
{
	return rc == -EINVAL ? EXIT_USAGE : rc == -ENODATA ? EXIT_NONE_RESTORABLE : exit_code_of(rc);
}

static int no_tag(const struct cli *cli, const char *name, const char *job)
{
	return cli_fail(cli, EXIT_FAILED, "there is no tag %s%s%s: ckpt tag lists them", name, job ? " in job " : "",
			job ? job : "");
}

int cli_pick(struct cli *cli, const char *text, struct checkpoint_ref *ref)
{
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	struct err err = {0};
	struct pick pick;
	const char *job;
	size_t n;
	int rc = pick_parse(text, &pick, &err);
	int code = rc ? cli_fail(cli, pick_code(rc), "%s", err.text) : cli_scan_job(cli, &refs, &n);
	if (!code)
		code = cli_job(cli, &job);
	if (code)
		return code;
	job = job ? job : n ? refs[0].job : NULL;
	rc = job ? pick_resolve(cli->repo, job, &pick, &err) : pick.tag ? -ENOENT : 0;
	if (rc == -ENOENT)
		return no_tag(cli, text, job);
	if (!rc)
		rc = pick_among(cli->repo, &pick, refs, n, ref, &err);
	if (rc == -ENODATA && pick.latest)
		return cli_say_none(cli);
	return rc ? cli_fail(cli, pick_code(rc), "%s", err.text) : EXIT_OK;
}
