/* ckpt recoveries: what was restored, why, from where, and how long each part of the way took. The daemon tells of its own life, the catalog
 * of the store of earlier ones and of other nodes. */
#include "inspect/recoveries.h"
#include "frame/field.h"
#include "frame/jobs.h"
#include "frame/state.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "store/catalog/recovered.h"
#include "store/read/repo.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What is asked for, and what was found. */
struct search {
	struct cli *cli;
	const char *job;     /* NULL: all */
	char *store;         /* owned; NULL: there is none */
	const char *catalog; /* how reading it went; NULL: there is no store */
	json_t *list;
	char others[JOBS_TEXT_MAX]; /* jobs of the daemon that are not meant */
	bool met;                   /* it has the job */
};

static int64_t ended(const json_t *recovery)
{
	return field_number(recovery, "ended_ns");
}

/* The same recovery is in the daemon's memory and in the catalog. */
static bool known(const struct search *s, const json_t *recovery)
{
	size_t i;
	const json_t *r;
	int64_t at = ended(recovery);
	json_array_foreach(s->list, i, r)
	{
		if (ended(r) == at && !strcmp(field_text(r, "job"), field_text(recovery, "job")) &&
		    !strcmp(field_text(r, "node"), field_text(recovery, "node")))
			return true;
	}
	return false;
}

/* Takes the reference. */
static void add(struct search *s, json_t *recovery, const char *job, const char *node)
{
	json_object_set_new(recovery, "job", json_text(job));
	json_object_set_new(recovery, "node", json_text(node));
	if (json_is_object(recovery) && !known(s, recovery))
		json_array_append_new(s->list, recovery);
	else
		json_decref(recovery);
}

/* ---- the catalog ------------------------------------------------------------------------------------------------- */

static void read_catalog(struct search *s)
{
	struct recovered_list noted;
	if (!s->store)
		return;
	int rc = recovered_read(s->store, s->job, &noted);
	for (size_t i = 0; i < noted.n; i++) {
		const struct recovered *r = &noted.list[i];
		add(s, json_loads(r->json, JSON_REJECT_DUPLICATES, NULL), r->job, r->node);
	}
	recovered_free(&noted);
	s->catalog = !rc ? "read" : rc == -ENOENT ? "missing" : "unreadable";
	if (rc == -ENOENT)
		cli_note(s->cli, "%s has no catalog that tells of recoveries: earlier ones are not known", s->store);
	else if (rc)
		cli_note(s->cli, "the catalog of %s cannot be read to its end (%s): some are not shown", s->store,
			 err_name(rc));
}

static int look_at_store(struct search *s, const char *path)
{
	struct repo repo;
	struct err err = {""};
	int rc = repo_open(path, &repo, &err);
	if (rc)
		return cli_fail(s->cli, rc == -ENOENT || rc == -ENOTDIR ? EXIT_NO_REPO : EXIT_FAILED, "%s", err.text);
	s->store = strdup(path);
	read_catalog(s);
	int code = json_array_size(s->list) ? EXIT_OK : jobs_check(s->cli, &repo, s->job);
	repo_close(&repo);
	return code;
}

/* ---- the daemon -------------------------------------------------------------------------------------------------- */

static void add_other(struct search *s, const char *name)
{
	size_t len = strlen(s->others);
	snprintf(s->others + len, sizeof(s->others) - len, "%s%s", len ? ", " : "", name);
}

static void take_status(struct search *s, const json_t *doc)
{
	size_t i, k;
	json_t *job, *recovery;
	json_array_foreach(json_object_get(doc, "jobs"), i, job)
	{
		const char *name = field_text(job, "name");
		if (s->job && strcmp(s->job, name) != 0) {
			add_other(s, name);
			continue;
		}
		s->met = true;
		json_array_foreach(json_object_get(json_object_get(job, "recoveries"), "recent"), k, recovery)
			add(s, json_copy(recovery), name, field_text(doc, "node"));
	}
	const char *store = json_string_value(json_object_get(doc, "store"));
	s->store = store ? strdup(store) : NULL;
}

static int ask(struct cli *cli, json_t **doc)
{
	struct err err = {""};
	struct state_of of;
	uint64_t ms;
	*doc = NULL;
	int code = contact_timeout(cli, &ms);
	if (!code)
		code = state_of(cli, ms * CLOCK_NS_PER_MS, &of);
	if (code)
		return code;
	code = state_ask(&of, doc, &err);
	if (!code)
		return EXIT_OK;
	return cli_fail(cli, code, "%s%s", err.text,
			code == EXIT_NO_DAEMON ? " (what the catalog has is shown with --store DIR)" : "");
}

/* Whether anybody knows the job that is asked for: a name that was mistyped must not look like one that needed no recovery. */
static int check_job(const struct search *s)
{
	struct repo repo;
	if (!s->job || s->met || json_array_size(s->list))
		return EXIT_OK;
	if (s->store && !repo_open(s->store, &repo, NULL)) {
		int code = jobs_check(s->cli, &repo, s->job);
		bool has = jobs_has(&repo, s->job);
		repo_close(&repo);
		if (code || has)
			return code;
	}
	if (!s->others[0]) /* else what the daemon has may be in memory only */
		return EXIT_OK;
	return cli_fail(s->cli, EXIT_FAILED, "the daemon has no job %s; it has: %s", s->job, s->others);
}

static int look_at_daemon(struct search *s)
{
	json_t *doc;
	int code = ask(s->cli, &doc);
	if (!code) {
		take_status(s, doc);
		read_catalog(s);
	}
	json_decref(doc);
	return code ? code : check_job(s);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	int64_t x = ended(*(json_t *const *)a), y = ended(*(json_t *const *)b);
	return (x > y) - (x < y);
}

/* The newest `most`, oldest first. */
static json_t *in_order(const json_t *list, uint64_t most)
{
	size_t n = json_array_size(list);
	json_t *ordered = json_array();
	AUTO_FREE json_t **all = calloc(n + 1, sizeof(*all));
	if (!all)
		return ordered;
	for (size_t i = 0; i < n; i++)
		all[i] = json_array_get(list, i);
	qsort(all, n, sizeof(*all), compare);
	for (size_t i = most < n ? n - most : 0; i < n; i++)
		json_array_append(ordered, all[i]);
	return ordered;
}

static void show(const struct search *s)
{
	struct cli *cli = s->cli;
	json_t *list = in_order(s->list, cli_number(cli, "last", UINT64_MAX));
	if (!cli->json) {
		if (json_array_size(list))
			recoveries_table(list, cli_flag(cli, "ranks"));
		else
			cli_note(cli, "no recoveries");
		json_decref(list);
		return;
	}
	json_t *doc = json_document(cli);
	json_object_set_new(doc, "store", s->store ? json_text(s->store) : json_null());
	json_object_set_new(doc, "catalog", s->catalog ? json_text(s->catalog) : json_null());
	json_object_set_new(doc, "recoveries", list);
	json_emit(doc);
}

static int run(struct cli *cli)
{
	struct search s = {.cli = cli, .job = cli_text(cli, "job"), .list = json_array()};
	struct err err = {""};
	const char *store = cli_text(cli, "store");
	int code = EXIT_OK;
	if (!s.job)
		s.job = getenv("CKPT_JOB");
	if (s.job && !*s.job)
		s.job = NULL;
	if (s.job && name_check("job", s.job, NAME_JOB_MAX, &err))
		code = cli_fail(cli, EXIT_USAGE, "%s", err.text);
	else
		code = store ? look_at_store(&s, store) : look_at_daemon(&s);
	if (!code)
		show(&s);
	json_decref(s.list);
	free(s.store);
	return code;
}

static const struct option_spec options[] = {
	{"job", OPTION_TEXT, "NAME", "of this job alone (else CKPT_JOB; else of all)"},
	{"last", OPTION_NUMBER, "N", "only the newest N"},
	{"ranks", OPTION_FLAG, NULL, "also each rank: where its part came from, and how long it took"},
	{"store", OPTION_TEXT, "DIR", "what the catalog of this repository has noted; no daemon is asked"},
	CONTACT_SOCKET_OPTION,
	CONTACT_USER_OPTION,
	CONTACT_TIMEOUT_OPTION,
	{NULL},
};

const struct command command_recoveries = {
	.name = "recoveries",
	.summary = "show what was restored, why, and how long each part of the way took",
	.detail =
		"DETECT, DECIDE, GATHER, CHOOSE, FETCH, LOAD and FIRST STEP follow each other, from the last "
		"heartbeat\n"
		"of the lost rank to the first new step of the last rank. TOTAL is their sum. A line below says which\n"
		"better places for the state were passed over, and why. Without --store it asks the daemon, and the\n"
		"catalog of its store for what was before. Exit code 12: no daemon answers.",
	.args = "",
	.no_repo = true,
	.options = options,
	.run = run,
};
