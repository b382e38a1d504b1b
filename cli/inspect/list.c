/* ckpt list: one line per checkpoint. Of those that have not changed since the daemon noted what is to be said it says that; of the others
 * it opens MANIFEST.json and the marks. */
#include "frame/jobs.h"
#include "frame/output.h"
#include "frame/target.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "store/catalog/listed.h"
#include "store/manage/tags.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What one line says. */
struct row {
	const char *state;
	enum tone tone;
	const struct listing *listing; /* NULL: partial */
	struct err why;                /* "" or what is wrong */
};

static const struct {
	const char *name;
	enum tone tone;
} states[] = {
	[0] = {"partial", TONE_DIM},
	[LISTING_COMMITTED] = {"committed", TONE_PLAIN},
	[LISTING_VERIFIED] = {"verified", TONE_GOOD},
	[LISTING_DAMAGED] = {"damaged", TONE_BAD},
	[LISTING_UNREADABLE] = {"unreadable", TONE_WARN},
};

/* By enum listing_mark. */
static const char *const marks[] = {"-", "healthy", "unhealthy"};

/* What was noted, or else what a look says, into *room. False: it has been removed since it was listed. */
static bool read_row(struct repo *repo, const struct checkpoint_ref *ref, struct listing *room, struct row *row)
{
	*row = (struct row){.listing = ref->listing};
	if (ref->state != CHECKPOINT_PARTIAL && !ref->listing) {
		if (!listing_read(repo, ref, room, &row->why))
			return false;
		row->listing = room;
	}
	int state = row->listing ? row->listing->state : 0;
	row->state = states[state].name;
	row->tone = states[state].tone;
	return true;
}

/* The tags of one job at a time: checkpoints come job by job. */
struct job_tags {
	char job[NAME_JOB_MAX];
	struct tag_found *tags;
	size_t n;
};

static void load_tags(struct cli *cli, const char *job, struct job_tags *tags)
{
	struct err err = {0};
	if (!strcmp(tags->job, job))
		return;
	free(steal_ptr(&tags->tags));
	tags->n = 0;
	snprintf(tags->job, sizeof(tags->job), "%s", job);
	if (tags_list(cli->repo, job, &tags->tags, &tags->n, &err) < 0)
		cli_note(cli, "%s", err.text);
	for (size_t i = 0; i < tags->n; i++)
		if (tags->tags[i].rc < 0)
			cli_note(cli, "tag %s of job %s cannot be read: %s", tags->tags[i].tag.name, job,
				 err_name(tags->tags[i].rc));
}

/* "best, paper"; "-" without. */
static void tags_text(const struct job_tags *tags, struct step_id id, char *dst, size_t size)
{
	size_t len = 0;
	snprintf(dst, size, "-");
	for (size_t i = 0; (i = tags_next(tags->tags, tags->n, i, id)) < tags->n && len < size; i++)
		len += (size_t)snprintf(dst + len, size - len, "%s%s", len ? ", " : "", tags->tags[i].tag.name);
}

static json_t *tags_json(const struct job_tags *tags, struct step_id id)
{
	json_t *list = json_array();
	for (size_t i = 0; (i = tags_next(tags->tags, tags->n, i, id)) < tags->n; i++)
		json_array_append_new(list, json_text(tags->tags[i].tag.name));
	return list;
}

static void add_row(struct table *t, const struct checkpoint_ref *ref, const struct row *row,
		    const struct job_tags *tags)
{
	const struct listing *l = row->listing;
	char size[40], age[32], names[256];
	table_cell(t, TONE_PLAIN, "%s", ref->job);
	table_cell(t, TONE_PLAIN, "%" PRIu64, ref->id.step);
	table_cell(t, TONE_PLAIN, "%u", ref->id.epoch);
	table_cell(t, TONE_PLAIN, "%s", ref->committed_ns ? text_age(age, sizeof(age), ref->committed_ns) : "-");
	if (l && l->known) {
		table_cell(t, TONE_PLAIN, "%s", text_sizes(size, sizeof(size), l->bytes, l->stored));
		table_cell(t, TONE_PLAIN, "%u", l->ranks);
		table_cell(t, TONE_PLAIN, "%" PRIu64, l->files);
	} else {
		for (int i = 0; i < 3; i++)
			table_cell(t, TONE_DIM, "-");
	}
	table_cell(t, row->tone, "%s", row->state);
	table_cell(t, l && l->mark == LISTING_UNHEALTHY ? TONE_WARN : TONE_PLAIN, "%s", marks[l ? l->mark : 0]);
	table_cell(t, TONE_PLAIN, "%s", l && l->pinned ? "pinned" : "-");
	tags_text(tags, ref->id, names, sizeof(names));
	table_cell(t, TONE_PLAIN, "%s", names);
}

static json_t *row_json(const struct checkpoint_ref *ref, const struct row *row, const struct job_tags *tags)
{
	char name[NAME_DIR_MAX];
	name_dir(ref->id, name);
	const struct listing *l = row->listing;
	bool known = l && l->known;
	json_t *o =
		json_pack("{s:s, s:I, s:I, s:s, s:s, s:b}", "job", ref->job, "step", (json_int_t)ref->id.step, "epoch",
			  (json_int_t)ref->id.epoch, "name", name, "state", row->state, "pinned", l && l->pinned);
	json_object_set_new(o, "tags", tags_json(tags, ref->id));
	json_object_set_new(o, "verdict", l && l->mark ? json_string(marks[l->mark]) : json_null());
	json_object_set_new(o, "committed_ns",
			    ref->committed_ns ? json_integer((json_int_t)ref->committed_ns) : json_null());
	json_object_set_new(o, "verified_ns",
			    l && l->verified_ns ? json_integer((json_int_t)l->verified_ns) : json_null());
	json_object_set_new(o, "bytes", known ? json_integer((json_int_t)l->bytes) : json_null());
	json_object_set_new(o, "stored", known ? json_integer((json_int_t)l->stored) : json_null());
	json_object_set_new(o, "files", known ? json_integer((json_int_t)l->files) : json_null());
	json_object_set_new(o, "ranks", known ? json_integer(l->ranks) : json_null());
	json_object_set_new(o, "nodes", known ? json_integer(l->nodes) : json_null());
	json_object_set_new(o, "began", known && l->began ? json_integer(l->began) : json_null());
	json_object_set_new(o, "detail", row->why.text[0] ? json_text(row->why.text) : json_null());
	return o;
}

static const struct column columns[] = {
	{"JOB", ALIGN_LEFT},   {"STEP", ALIGN_RIGHT},  {"EPOCH", ALIGN_RIGHT}, {"COMMITTED", ALIGN_RIGHT},
	{"SIZE", ALIGN_RIGHT}, {"RANKS", ALIGN_RIGHT}, {"FILES", ALIGN_RIGHT}, {"STATE", ALIGN_LEFT},
	{"MARK", ALIGN_LEFT},  {"PIN", ALIGN_LEFT},    {"TAGS", ALIGN_LEFT},
};

/* Index of the first ref to show: the last `wanted` that are shown at all. */
static size_t first_shown(const struct checkpoint_ref *refs, size_t n, bool all, uint64_t wanted)
{
	size_t i = n;
	while (i > 0 && wanted > 0) {
		i--;
		wanted -= all || refs[i].state == CHECKPOINT_COMMITTED;
	}
	return i;
}

static void note_partial(const struct cli *cli, const struct checkpoint_ref *refs, size_t n, size_t *partial)
{
	*partial = 0;
	for (size_t i = 0; i < n; i++)
		*partial += refs[i].state == CHECKPOINT_PARTIAL;
	if (*partial && !cli_flag(cli, "all"))
		cli_note(cli, "%zu director%s without a commit not shown (in flight or abandoned; --all shows)",
			 *partial, *partial == 1 ? "y" : "ies");
}

static void note_none(const struct cli *cli)
{
	const char *job;
	cli_job(cli, &job);
	cli_note(cli, "no checkpoints%s%s in %s", job ? " of job " : "", job ? job : "", cli->repo->path);
}

/* Why more stays than the rules keep (store/manage/retention.h), once for each such run. */
static void note_run(const struct cli *cli, const struct checkpoint_ref *refs, size_t at, uint32_t began,
		     uint32_t *noted)
{
	size_t first = at;
	while (first && !strcmp(refs[first - 1].job, refs[at].job))
		first--;
	if (began && began != *noted && refs[first].id.epoch < began)
		cli_note(cli,
			 "job %s began in epoch %u without restoring what was there: the newest checkpoints of earlier "
			 "epochs stay until ckpt forget names them, or is told --earlier-runs",
			 refs[at].job, began);
	*noted = began ? began : *noted;
}

static void show(struct cli *cli, const struct checkpoint_ref *refs, size_t n, struct table *t, json_t *list)
{
	bool all = cli_flag(cli, "all");
	struct job_tags tags = {0};
	uint32_t noted = 0;
	for (size_t i = first_shown(refs, n, all, cli_number(cli, "last", UINT64_MAX)); i < n; i++) {
		struct row row;
		struct listing room;
		if (refs[i].state == CHECKPOINT_PARTIAL && !all)
			continue;
		load_tags(cli, refs[i].job, &tags);
		if (!read_row(cli->repo, &refs[i], &room, &row))
			continue;
		if (row.why.text[0])
			cli_note(cli, "%s", row.why.text);
		note_run(cli, refs, i, row.listing ? row.listing->began : 0, &noted);
		if (list)
			json_array_append_new(list, row_json(&refs[i], &row, &tags));
		else
			add_row(t, &refs[i], &row, &tags);
	}
	free(tags.tags);
}

static int list(struct cli *cli, const struct checkpoint_ref *refs, size_t n)
{
	size_t partial;
	json_t *array = cli->json ? json_array() : NULL;
	struct table *t = cli->json ? NULL : table_new(columns, sizeof(columns) / sizeof(columns[0]));
	show(cli, refs, n, t, array);
	note_partial(cli, refs, n, &partial);
	if (n == partial)
		note_none(cli);
	if (!cli->json) {
		if (n > partial || (partial && cli_flag(cli, "all")))
			table_print(t);
		else
			table_free(t);
		return EXIT_OK;
	}
	json_t *doc = json_document(cli);
	json_object_set_new(doc, "repository", json_text(cli->repo->path));
	json_object_set_new(doc, "checkpoints", array);
	json_object_set_new(doc, "partial", json_integer((json_int_t)partial));
	json_emit(doc);
	return EXIT_OK;
}

static int run(struct cli *cli)
{
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	struct listings known;
	struct err err = {0};
	const char *job;
	size_t n;
	int code = cli_repo_job(cli, &job);
	if (code)
		return code;
	listed_read(cli->repo->path, job, &known);
	int rc = repo_scan_known(cli->repo, job, &known, &refs, &n, &err);
	code = rc ? cli_fail(cli, exit_code_of(rc), "%s", err.text) : list(cli, refs, n);
	listings_free(&known);
	return code;
}

static const struct option_spec options[] = {
	{"all", OPTION_FLAG, NULL, "also show directories without a commit, as partial"},
	{"last", OPTION_NUMBER, "N", "only the newest N"},
	{NULL},
};

const struct command command_list = {
	.name = "list",
	.summary = "list the checkpoints of a repository, oldest first",
	.detail = "SIZE is what the files hold. If they are packed, what they take follows: \"1.5 GiB in 1.2 GiB\".\n"
		  "STATE is committed, verified (a full read found it intact), damaged (a check found damage; ckpt\n"
		  "verify names it) or unreadable (its manifest could not be read now). MARK is what training\n"
		  "said of the state: healthy or unhealthy. All jobs are listed, unless --job or CKPT_JOB names one.",
	.args = "",
	.options = options,
	.run = run,
};
