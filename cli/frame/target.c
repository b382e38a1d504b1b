#include "frame/target.h"

#include "frame/jobs.h"
#include "frame/output.h"

#include "base/cleanup.h"
#include "store/manage/tags.h"

#include <ctype.h>
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

int cli_scan(struct cli *cli, struct checkpoint_ref **refs, size_t *n)
{
	struct err err = {0};
	const char *job;
	*refs = NULL;
	int code = cli_job(cli, &job);
	if (!code)
		code = cli_repo(cli);
	if (!code)
		code = jobs_check(cli, cli->repo, job);
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

struct wish {
	bool latest, healthy, any_epoch;
	struct step_id id;
};

static bool digits(const char *text, size_t min, size_t max)
{
	size_t n = strspn(text, "0123456789");
	return !text[n] && n >= min && n <= max;
}

/* "latest", "healthy", "1000", "1000.e0003", "step-000000001000.e0003". */
static int parse_wish(const char *text, struct wish *wish)
{
	*wish = (struct wish){.latest = !text || !strcmp(text, "latest"), .healthy = text && !strcmp(text, "healthy")};
	if (wish->latest || wish->healthy)
		return 0;
	if (!strncmp(text, "step-", 5))
		return name_parse_dir(text, &wish->id);
	char step[16];
	size_t len = strcspn(text, ".");
	if (len >= sizeof(step))
		return -EINVAL;
	memcpy(step, text, len);
	step[len] = 0;
	wish->any_epoch = !text[len];
	if (!digits(step, 1, 12) || (text[len] && (strncmp(text + len, ".e", 2) || !digits(text + len + 2, 1, 9))))
		return -EINVAL;
	wish->id.step = strtoull(step, NULL, 10);
	wish->id.epoch = wish->any_epoch ? 0 : (uint32_t)strtoul(text + len + 2, NULL, 10);
	return 0;
}

static bool grants(const struct wish *wish, const struct checkpoint_ref *ref)
{
	return wish->latest || (ref->id.step == wish->id.step && (wish->any_epoch || ref->id.epoch == wish->id.epoch));
}

/* The training called it healthy, and nobody has found damage in it. */
static bool is_healthy(struct repo *repo, const struct checkpoint_ref *ref)
{
	struct checkpoint ck;
	struct health_mark mark;
	struct health health;
	if (checkpoint_open_root(repo, ref->job, ref->id, &ck, NULL))
		return false;
	bool healthy = !checkpoint_health_mark(&ck, &mark, NULL) && !mark.unhealthy &&
		       (checkpoint_health(&ck, &health, NULL) || !health.damaged);
	checkpoint_close(&ck);
	return healthy;
}

static int say_missing(const struct cli *cli, const char *text, const struct wish *wish,
		       const struct checkpoint_ref *refs, size_t n)
{
	const struct checkpoint_ref *below = NULL, *above = NULL;
	for (size_t i = 0; i < n; i++) {
		if (refs[i].state != CHECKPOINT_COMMITTED) {
			if (grants(wish, &refs[i]))
				return cli_fail(cli, EXIT_FAILED, "%s was never committed: it is no checkpoint", text);
			continue;
		}
		if (refs[i].id.step <= wish->id.step && (!below || refs[i].id.step >= below->id.step))
			below = &refs[i];
		if (refs[i].id.step >= wish->id.step && (!above || refs[i].id.step <= above->id.step))
			above = &refs[i];
	}
	if (!below && !above)
		return cli_fail(cli, EXIT_FAILED, "there is no checkpoint %s in %s, and none that was committed", text,
				cli->repo->path);
	char low[NAME_DIR_MAX] = "nothing", high[NAME_DIR_MAX] = "nothing";
	if (below)
		name_dir(below->id, low);
	if (above)
		name_dir(above->id, high);
	return cli_fail(cli, EXIT_FAILED, "there is no checkpoint %s: the nearest are %s below and %s above", text, low,
			high);
}

int cli_say_none(const struct cli *cli)
{
	const char *job;
	cli_job(cli, &job);
	return cli_fail(cli, EXIT_NONE_RESTORABLE, "there is no committed checkpoint%s%s in %s", job ? " of job " : "",
			job ? job : "", cli->repo->path);
}

static int say_no_healthy(const struct cli *cli)
{
	return cli_fail(cli, EXIT_NONE_RESTORABLE,
			"there is no intact checkpoint in %s that the training called healthy", cli->repo->path);
}

/* The checkpoint that a tag of the scanned job names. */
static int follow_tag(struct cli *cli, const char *name, const struct checkpoint_ref *refs, size_t n, struct wish *wish)
{
	struct err err = {0};
	struct tag tag;
	const char *job;
	int code = cli_job(cli, &job);
	if (code)
		return code;
	if (!job && n)
		job = refs[0].job;
	int rc = job ? tag_read(cli->repo, job, name, &tag, &err) : -ENOENT;
	if (rc == -ENOENT)
		return cli_fail(cli, EXIT_FAILED, "there is no tag %s%s%s: ckpt tag lists them", name,
				job ? " in job " : "", job ? job : "");
	if (rc < 0)
		return cli_fail(cli, exit_code_of(rc), "%s", err.text);
	*wish = (struct wish){.id = tag.id};
	return EXIT_OK;
}

static int say_dangling(const struct cli *cli, const char *name, const struct wish *wish)
{
	char dir[NAME_DIR_MAX];
	name_dir(wish->id, dir);
	return cli_fail(cli, EXIT_FAILED, "tag %s names %s, which is not there any more", name, dir);
}

int cli_pick(struct cli *cli, const char *text, struct checkpoint_ref *ref)
{
	struct wish wish;
	bool tag = parse_wish(text, &wish) < 0;
	if (tag && name_check_tag(text, NULL) < 0)
		return cli_fail(
			cli, EXIT_USAGE,
			"\"%s\" is no checkpoint: say latest, healthy, 1000, 1000.e0003, the directory's name or a tag",
			text);
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	size_t n;
	int code = cli_scan_job(cli, &refs, &n);
	if (!code && tag)
		code = follow_tag(cli, text, refs, n, &wish);
	if (code)
		return code;
	for (size_t i = n; i-- > 0;) {
		if (refs[i].state == CHECKPOINT_COMMITTED &&
		    (wish.healthy ? is_healthy(cli->repo, &refs[i]) : grants(&wish, &refs[i]))) {
			*ref = refs[i];
			return EXIT_OK;
		}
	}
	if (wish.latest)
		return cli_say_none(cli);
	if (wish.healthy)
		return say_no_healthy(cli);
	if (tag)
		return say_dangling(cli, text, &wish);
	return say_missing(cli, text, &wish, refs, n);
}
