/* ckpt gc: deletes what crashes left in a repository (store/manage/litter.h). */
#include "change/removal.h"
#include "frame/jobs.h"
#include "frame/progress.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "store/manage/freed.h"
#include "store/manage/litter.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_AGE (3600 * CLOCK_NS_PER_S)

enum fate { FATE_YOUNG = 0, FATE_DUE, FATE_REMOVED, FATE_FAILED };

struct collecting {
	struct cli *cli;
	struct litter *litter;
	size_t n, removed;
	enum fate *fates;
	uint64_t *frees;
	uint64_t freed;
};

static int find(struct collecting *c, const char *job, uint64_t older)
{
	struct err err = {0};
	int rc = litter_find(c->cli->repo, job, &c->litter, &c->n, &err);
	if (rc < 0)
		return cli_fail(c->cli, exit_code_of(rc), "%s", err.text);
	c->fates = calloc(c->n + 1, sizeof(*c->fates));
	c->frees = calloc(c->n + 1, sizeof(*c->frees));
	if (!c->fates || !c->frees)
		return cli_fail(c->cli, EXIT_FAILED, "out of memory");
	uint64_t now = c->n ? litter_now(c->cli->repo) : 0;
	for (size_t i = 0; i < c->n; i++)
		c->fates[i] = litter_due(&c->litter[i], now, older) ? FATE_DUE : FATE_YOUNG;
	return EXIT_OK;
}

/* Temporary files are documents of a few hundred bytes: they are not counted. */
static int count(struct collecting *c)
{
	struct freed freed = {0};
	struct err err = {0};
	int rc = 0;
	for (size_t i = 0; !rc && i < c->n; i++)
		if (c->litter[i].kind != LITTER_TEMPORARY && c->fates[i] == FATE_DUE)
			rc = freed_add(&freed, c->cli->repo, c->litter[i].job, c->litter[i].name, i, &err);
	if (!rc)
		c->freed = freed_count(&freed, c->frees);
	freed_free(&freed);
	return rc < 0 ? cli_fail(c->cli, exit_code_of(rc), "%s", err.text) : EXIT_OK;
}

static int remove_one(struct collecting *c, const struct litter *l, struct err *err)
{
	char moved[TRASH_NAME_MAX];
	const char *trash = l->name;
	int rc = 0;
	if (l->kind == LITTER_TEMPORARY)
		return litter_unlink(c->cli->repo, l, err);
	if (l->kind != LITTER_TRASH) {
		rc = trash_move(c->cli->repo, l->job, l->name, moved, err);
		trash = moved;
	}
	if (rc == -ENOENT) /* somebody else has it */
		return 0;
	return rc ? rc : trash_sweep(c->cli->repo, l->job, trash, &c->freed, err);
}

static int remove_all(struct collecting *c)
{
	int code = EXIT_OK;
	bool failed = false;
	c->freed = 0;
	cli_catch_interrupt();
	for (size_t i = 0; i < c->n && !cli_interrupted(); i++) {
		struct err err = {0};
		if (c->fates[i] != FATE_DUE)
			continue;
		int rc = remove_one(c, &c->litter[i], &err);
		c->fates[i] = rc < 0 ? FATE_FAILED : FATE_REMOVED;
		c->removed += !rc;
		failed |= rc < 0;
		if (rc < 0)
			code = cli_fail(c->cli, exit_code_of(rc), "%s", err.text);
	}
	if (cli_interrupted())
		return cli_fail(c->cli, EXIT_CANCELLED, "interrupted");
	return failed && c->removed ? EXIT_PARTIAL : code;
}

static const char *fate_word(enum fate fate)
{
	static const char *const words[] = {"young", "due", "removed", "failed"};
	return words[fate];
}

/* "main/step-…/.tmp-HEALTH.json.0" */
static char *path_of(const struct litter *l, char *dst, size_t size)
{
	snprintf(dst, size, "%s%s%s%s%s", l->job, *l->job ? "/" : "", l->dir, *l->dir ? "/" : "", l->name);
	return dst;
}

static void print(const struct collecting *c)
{
	static const struct column columns[] = {{"WHAT", ALIGN_LEFT},
						{"NAME", ALIGN_LEFT},
						{"SINCE", ALIGN_LEFT},
						{"", ALIGN_LEFT},
						{"FREES", ALIGN_RIGHT}};
	struct table *t = table_new(columns, sizeof(columns) / sizeof(columns[0]));
	char path[NAME_JOB_MAX + NAME_DIR_MAX + TRASH_NAME_MAX], age[32], bytes[16];
	size_t due = 0;
	for (size_t i = 0; i < c->n; i++) {
		bool young = c->fates[i] == FATE_YOUNG;
		table_cell(t, TONE_PLAIN, "%s", litter_word(c->litter[i].kind));
		table_cell(t, TONE_PLAIN, "%s", path_of(&c->litter[i], path, sizeof(path)));
		table_cell(t, TONE_PLAIN, "%s", text_age(age, sizeof(age), c->litter[i].since_ns));
		table_cell(t, young ? TONE_GOOD : TONE_WARN, "%s", fate_word(c->fates[i]));
		table_cell(t, TONE_PLAIN, "%s", young ? "-" : bytes_human(bytes, sizeof(bytes), c->frees[i]));
		due += c->fates[i] == FATE_DUE;
	}
	if (c->n)
		table_print(t);
	else
		table_free(t);
	bool dry = cli_flag(c->cli, "dry-run");
	out(TONE_PLAIN, "%zu of %zu %s, %s on storage\n", dry ? due : c->removed, c->n, dry ? "would go" : "removed",
	    bytes_human(bytes, sizeof(bytes), c->freed));
}

static void emit(const struct collecting *c)
{
	char path[NAME_JOB_MAX + NAME_DIR_MAX + TRASH_NAME_MAX];
	json_t *doc = json_document(c->cli), *list = json_array();
	json_object_set_new(doc, "repository", json_text(c->cli->repo->path));
	json_object_set_new(doc, "dry_run", json_boolean(cli_flag(c->cli, "dry-run")));
	for (size_t i = 0; i < c->n; i++) {
		const struct litter *l = &c->litter[i];
		json_array_append_new(list, json_pack("{s:s, s:o, s:o, s:I, s:s, s:I}", "kind", litter_word(l->kind),
						      "job", *l->job ? json_text(l->job) : json_null(), "path",
						      json_text(path_of(l, path, sizeof(path))), "since_ns",
						      (json_int_t)l->since_ns, "state", fate_word(c->fates[i]), "frees",
						      (json_int_t)c->frees[i]));
	}
	json_object_set_new(doc, "litter", list);
	json_object_set_new(doc, "removed", json_integer((json_int_t)c->removed));
	json_object_set_new(doc, "freed", json_integer((json_int_t)c->freed));
	json_emit(doc);
}

static int run(struct cli *cli)
{
	struct collecting c = {.cli = cli};
	const char *job;
	uint64_t older;
	int code = removal_duration(cli, "older-than", DEFAULT_AGE, &older);
	if (!code)
		code = cli_repo_job(cli, &job);
	if (!code)
		code = find(&c, job, older);
	if (!code)
		code = count(&c);
	if (!code) {
		if (!cli_flag(cli, "dry-run"))
			code = remove_all(&c);
		if (cli->json)
			emit(&c);
		else
			print(&c);
	}
	free(c.litter);
	free(c.fates);
	free(c.frees);
	return code;
}

static const struct option_spec options[] = {
	{"older-than", OPTION_TEXT, "TIME", "only what is older than this, such as 90m or 7d (default 1h)"},
	{"dry-run", OPTION_FLAG, NULL, "show what would go; remove nothing"},
	{NULL},
};

const struct command command_gc = {
	.name = "gc",
	.summary = "delete what crashes left behind; no checkpoint",
	.detail = "Deletes half-written directories (.writing-…, .abandoned-…), directories whose deletion was cut "
		  "short\n"
		  "(.trash-…, at any age) and temporary files. What may still be written goes when nothing was written "
		  "in\n"
		  "it for a minute at least. A daemon does the same for its store. All jobs are cleaned, unless --job "
		  "or\n"
		  "CKPT_JOB names one.",
	.args = "",
	.options = options,
	.run = run,
};
