/* ckpt tag: names for checkpoints. */
#include "change/removal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "store/manage/tags.h"

#include <stdlib.h>
#include <string.h>

/* ---- list */

static void add_row(struct table *t, const struct tag_found *found)
{
	char name[NAME_DIR_MAX] = "-", age[32] = "-";
	if (!found->rc) {
		name_dir(found->tag.id, name);
		text_age(age, sizeof(age), found->tag.tagged_at);
	}
	table_cell(t, TONE_PLAIN, "%s", found->tag.name);
	table_cell(t, found->rc ? TONE_BAD : TONE_PLAIN, "%s", found->rc ? "damaged" : name);
	table_cell(t, TONE_DIM, "%s", age);
}

static json_t *found_json(const struct tag_found *found)
{
	char name[NAME_DIR_MAX];
	json_t *o = json_pack("{s:o, s:b}", "tag", json_text(found->tag.name), "damaged", found->rc < 0);
	name_dir(found->tag.id, name);
	json_object_set_new(o, "name", found->rc ? json_null() : json_string(name));
	json_object_set_new(o, "step", found->rc ? json_null() : json_integer((json_int_t)found->tag.id.step));
	json_object_set_new(o, "epoch", found->rc ? json_null() : json_integer(found->tag.id.epoch));
	json_object_set_new(o, "tagged_ns", found->rc ? json_null() : json_integer((json_int_t)found->tag.tagged_at));
	return o;
}

static void print_list(const struct cli *cli, const char *job, const struct tag_found *tags, size_t n)
{
	static const struct column columns[] = {{"TAG", ALIGN_LEFT}, {"CHECKPOINT", ALIGN_LEFT}, {"SET", ALIGN_LEFT}};
	if (!cli->json) {
		struct table *t = table_new(columns, 3);
		for (size_t i = 0; i < n; i++)
			add_row(t, &tags[i]);
		if (n)
			table_print(t);
		else
			table_free(t);
		return;
	}
	json_t *doc = json_document(cli), *list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, found_json(&tags[i]));
	json_object_set_new(doc, "job", json_text(job));
	json_object_set_new(doc, "tags", list);
	json_emit(doc);
}

static int list(struct cli *cli, const char *job)
{
	AUTO_FREE struct tag_found *tags = NULL;
	struct err err = {0};
	size_t n;
	int rc = tags_list(cli->repo, job, &tags, &n, &err);
	if (rc < 0)
		return cli_fail(cli, exit_code_of(rc), "%s", err.text);
	print_list(cli, job, tags, n);
	for (size_t i = 0; i < n; i++)
		if (tags[i].rc < 0)
			return cli_fail(cli, EXIT_CORRUPT,
					"tag %s of job %s is damaged: set it again with --move, or --delete it",
					tags[i].tag.name, job);
	return EXIT_OK;
}

/* ---- set, delete */

static int report(const struct cli *cli, const char *job, const char *name, const struct checkpoint_ref *ref,
		  bool changed)
{
	char dir[NAME_DIR_MAX] = "";
	if (ref)
		name_dir(ref->id, dir);
	if (!cli->json) {
		out(TONE_PLAIN, ref ? "%s/%s is tagged %s%s\n" : "%s: %stag %s is deleted%s\n", job, dir, name,
		    changed ? "" : ", as before");
		return EXIT_OK;
	}
	json_t *doc = ref ? json_checkpoint(cli, ref) : json_document(cli);
	json_object_set_new(doc, "job", json_text(job));
	json_object_set_new(doc, "tag", json_text(name));
	json_object_set_new(doc, "deleted", json_boolean(!ref));
	json_object_set_new(doc, "changed", json_boolean(changed));
	json_emit(doc);
	return EXIT_OK;
}

static int set_locked(struct cli *cli)
{
	struct checkpoint_ref ref;
	struct err err = {0};
	struct tag old, tag = {.tagged_at = clock_wall()};
	const char *name = cli->args[1];
	int code = cli_pick(cli, cli->args[0], &ref);
	if (code)
		return code;
	tag.id = ref.id;
	memcpy(tag.job, ref.job, sizeof(tag.job));
	memcpy(tag.name, name, strlen(name) + 1);
	bool there = tag_read(cli->repo, ref.job, name, &old, &err) == 0;
	if (there && !step_compare(old.id, ref.id))
		return report(cli, ref.job, name, &ref, false);
	int rc = tag_put(cli->repo, &tag, cli_flag(cli, "move"), &err);
	if (rc == -EEXIST) {
		char dir[NAME_DIR_MAX] = "something that cannot be read";
		if (there)
			name_dir(old.id, dir);
		return cli_fail(cli, EXIT_FAILED, "tag %s names %s already: --move takes it from there", name, dir);
	}
	return rc < 0 ? cli_fail(cli, exit_code_of(rc), "%s", err.text) : report(cli, ref.job, name, &ref, true);
}

/* What is tagged must not go at the same moment. */
static int set(struct cli *cli)
{
	struct err err = {0};
	int lock;
	if (name_check_new_tag(cli->args[1], &err) < 0)
		return cli_fail(cli, EXIT_USAGE, "%s", err.text);
	int code = removal_lock(cli, &lock);
	if (!code)
		code = set_locked(cli);
	removal_unlock(cli, lock);
	return code;
}

static int drop(struct cli *cli, const char *job)
{
	struct err err = {0};
	const char *name = cli_text(cli, "delete");
	if (name_check_tag(name, &err) < 0)
		return cli_fail(cli, EXIT_USAGE, "%s", err.text);
	int rc = tag_drop(cli->repo, job, name, &err);
	return rc < 0 ? cli_fail(cli, exit_code_of(rc), "%s", err.text) : report(cli, job, name, NULL, true);
}

/* The job that is meant; EXIT_OK and *job, which stays valid. */
static int meant_job(struct cli *cli, char dst[NAME_JOB_MAX])
{
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	const char *job;
	size_t n;
	int code = cli_scan_job(cli, &refs, &n);
	if (!code)
		code = cli_job(cli, &job);
	if (code)
		return code;
	if (!job && !n)
		return cli_say_none(cli);
	snprintf(dst, NAME_JOB_MAX, "%s", job ? job : refs[0].job);
	return EXIT_OK;
}

static int run(struct cli *cli)
{
	char job[NAME_JOB_MAX];
	bool delete = cli_text(cli, "delete");
	if (cli->nargs == 1 || (delete &&cli->nargs))
		return cli_fail(cli, EXIT_USAGE, "say STEP NAME, or --delete NAME, or nothing to list the tags");
	if (cli->nargs)
		return set(cli);
	if (cli_flag(cli, "move"))
		return cli_fail(cli, EXIT_USAGE, "--move takes a tag to another checkpoint: say STEP NAME");
	int code = meant_job(cli, job);
	if (code)
		return code;
	return delete ? drop(cli, job) : list(cli, job);
}

static const struct option_spec options[] = {
	{"move", OPTION_FLAG, NULL, "take the name from the checkpoint that has it"},
	{"delete", OPTION_TEXT, "NAME", "delete a tag; the checkpoint stays"},
	{NULL},
};

const struct command command_tag = {
	.name = "tag",
	.summary = "give a checkpoint a name, move it, delete it, or list the names",
	.detail = "NAME then means that checkpoint in every command, and retention does not remove it. A name is\n"
		  "unique in its job. It consists of A-Z a-z 0-9 _ . - and begins with a letter or _. Tags stand in\n"
		  "the store and survive the loss of the catalog. Without arguments: lists the tags of the job.",
	.args = "[STEP|latest NAME]",
	.max_args = 2,
	.options = options,
	.run = run,
};
