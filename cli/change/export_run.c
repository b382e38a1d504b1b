#include "change/export_run.h"

#include "change/staging.h"
#include "frame/amount.h"
#include "frame/output.h"
#include "frame/progress.h"
#include "frame/target.h"

#include "base/bytes.h"
#include "base/cleanup.h"

#include <inttypes.h>
#include <string.h>

/* What was done, for the report. */
struct outcome {
	struct checkpoint_ref ref;
	uint64_t tensors, files, bytes;
	json_t *passed_over;
	size_t npassed;
};

static int check_space(const struct export_order *order, const struct staging *staging, uint64_t bytes, struct err *err)
{
	uint64_t room;
	char need[16], have[16];
	int rc = staging_space(staging, &room, err);
	if (rc < 0 || bytes <= room)
		return rc;
	bytes_human(need, sizeof(need), bytes);
	bytes_human(have, sizeof(have), room);
	return err_set(err, -ENOSPC,
		       "%s (%" PRIu64 " bytes) are to be written, but only %s (%" PRIu64 " bytes) are free at %s", need,
		       bytes, have, room, order->to);
}

static int export_open(struct cli *cli, const struct export_order *order, struct checkpoint *ck,
		       const struct staging *staging, struct outcome *outcome, enum export_side *side, struct err *err)
{
	struct export_table table;
	struct progress progress;
	int rc = export_table_make(ck, &order->wish, &table, err);
	if (rc < 0) {
		*side = rc == -EBADMSG || rc == -EINVAL ? EXPORT_CHECKPOINT : EXPORT_TARGET;
		return rc;
	}
	*side = EXPORT_TARGET;
	rc = check_space(order, staging, table.bytes + order->beside.bytes, err);
	if (rc == 0)
		rc = beside_copy(&order->beside, staging->dir, err);
	if (rc == 0) {
		progress_start(&progress, cli, order->done);
		struct export_options opts = {.progress = progress_step, .arg = &progress};
		rc = export_write(ck, &table, staging->dir, &opts, side, err);
		progress_end(&progress);
	}
	if (rc == 0 && table.blobs)
		cli_note(cli, "%" PRIu64 " blobs are left out: ckpt dump writes them", table.blobs);
	if (rc == 0 && order->wish.form == EXPORT_HF && table.groups > 1 && !order->groups[0])
		cli_note(cli, "tensors of several groups are in one model: --group params leaves out the optimiser's");
	outcome->tensors = table.tensors;
	outcome->files = table.files;
	outcome->bytes = table.bytes;
	export_table_free(&table);
	return rc;
}

/* Fills the staging directory from one checkpoint. *side: whose fault a failure is. */
static int try_one(struct cli *cli, const struct export_order *order, const struct checkpoint_ref *ref,
		   const struct staging *staging, struct outcome *outcome, enum export_side *side, struct err *err)
{
	struct checkpoint ck;
	*side = EXPORT_CHECKPOINT;
	int rc = checkpoint_open(cli->repo, ref->job, ref->id, &ck, err);
	if (rc < 0)
		return rc;
	rc = export_open(cli, order, &ck, staging, outcome, side, err);
	checkpoint_close(&ck);
	outcome->ref = *ref;
	return rc;
}

/* Whether an older checkpoint may fare better: not when we were told to stop, or are out of something ourselves. */
static bool pass_over(int rc, enum export_side side)
{
	return side == EXPORT_CHECKPOINT && rc != -ECANCELED && rc != -ENOMEM && rc != -EMFILE && rc != -ENFILE;
}

static int fail_one(const struct cli *cli, int rc, enum export_side side, const struct err *err)
{
	if (rc == -ECANCELED)
		return cli_fail(cli, EXIT_CANCELLED, "%s; nothing was left behind", err->text);
	return cli_fail(cli, pass_over(rc, side) && rc != -EPROTONOSUPPORT ? EXIT_CORRUPT : EXIT_FAILED, "%s",
			err->text);
}

static void note_passed(const struct cli *cli, struct outcome *outcome, const struct checkpoint_ref *ref,
			const struct err *err)
{
	char dir[NAME_DIR_MAX];
	name_dir(ref->id, dir);
	cli_fail(cli, EXIT_OK, "passed over %s: %s", dir, err->text);
	json_t *entry = json_object();
	json_object_set_new(entry, "step", json_integer((json_int_t)ref->id.step));
	json_object_set_new(entry, "epoch", json_integer(ref->id.epoch));
	json_object_set_new(entry, "reason", json_text(err->text));
	json_array_append_new(outcome->passed_over, entry);
	outcome->npassed++;
}

/* The newest first; the damaged and the unreadable are passed over, each with a line that says why. */
static int restore_latest(struct cli *cli, const struct export_order *order, const struct staging *staging,
			  struct outcome *outcome)
{
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	size_t n;
	int code = cli_scan_job(cli, &refs, &n);
	if (code)
		return code;
	for (size_t i = n; i-- > 0;) {
		if (refs[i].state != CHECKPOINT_COMMITTED)
			continue;
		struct err err = {""};
		enum export_side side;
		int rc = try_one(cli, order, &refs[i], staging, outcome, &side, &err);
		if (rc == 0)
			return outcome->npassed ? EXIT_PARTIAL : EXIT_OK;
		if (!pass_over(rc, side))
			return fail_one(cli, rc, side, &err);
		note_passed(cli, outcome, &refs[i], &err);
		rc = staging_clear(staging, &err);
		if (rc < 0)
			return cli_fail(cli, EXIT_FAILED, "%s", err.text);
	}
	if (!outcome->npassed)
		return cli_say_none(cli);
	return cli_fail(cli, EXIT_NONE_RESTORABLE, "none of %zu checkpoints can be restored: the reasons stand above",
			outcome->npassed);
}

static int restore_named(struct cli *cli, const struct export_order *order, const struct staging *staging,
			 struct outcome *outcome)
{
	struct checkpoint_ref ref;
	int code = cli_pick(cli, cli->args[0], &ref);
	if (code)
		return code;
	struct err err = {""};
	enum export_side side;
	int rc = try_one(cli, order, &ref, staging, outcome, &side, &err);
	return rc < 0 ? fail_one(cli, rc, side, &err) : EXIT_OK;
}

/* " and 3 beside them"; "" without. */
static char *beside_text(const struct beside *beside, char *dst, size_t size)
{
	snprintf(dst, size, beside->n ? " and %zu beside them" : "", beside->n);
	return dst;
}

static json_t *beside_json(const struct beside *beside)
{
	json_t *names = json_array();
	for (size_t i = 0; i < beside->n; i++)
		json_array_append_new(names, json_text(beside->files[i].name));
	return names;
}

static void report(const struct cli *cli, const struct export_order *order, struct outcome *outcome)
{
	char dir[NAME_DIR_MAX], size[16], beside[48];
	const struct checkpoint_ref *ref = &outcome->ref;
	name_dir(ref->id, dir);
	bytes_human(size, sizeof(size), outcome->bytes);
	if (!cli->json) {
		out(TONE_PLAIN, "%s %s/%s to %s: %" PRIu64 " tensors, %s in %" PRIu64 " files%s%s\n", order->done,
		    ref->job, dir, order->to, outcome->tensors, size, outcome->files,
		    beside_text(&order->beside, beside, sizeof(beside)),
		    outcome->npassed ? "; it is not the newest checkpoint" : "");
		return;
	}
	json_t *doc = json_document(cli);
	json_object_set_new(doc, "job", json_text(ref->job));
	json_object_set_new(doc, "step", json_integer((json_int_t)ref->id.step));
	json_object_set_new(doc, "epoch", json_integer(ref->id.epoch));
	json_object_set_new(doc, "to", json_text(order->to));
	if (order->format) {
		json_object_set_new(doc, "format", json_text(order->format));
		json_object_set_new(doc, "with", beside_json(&order->beside));
	}
	json_object_set_new(doc, "tensors", json_integer((json_int_t)outcome->tensors));
	json_object_set_new(doc, "files", json_integer((json_int_t)outcome->files));
	json_object_set_new(doc, "bytes", json_integer((json_int_t)outcome->bytes));
	json_object_set(doc, "passed_over", outcome->passed_over);
	json_emit(doc);
}

/* The directory is complete all the same: so a script must be told, with its exit code, that steps are missing. */
static int say_older(const struct cli *cli, const struct export_order *order, const struct outcome *outcome)
{
	char dir[NAME_DIR_MAX];
	name_dir(outcome->ref.id, dir);
	return cli_fail(cli, EXIT_PARTIAL,
			"%s is complete, but it is %s and not the newest checkpoint: %zu newer cannot be read, as is "
			"said above",
			order->to, dir, outcome->npassed);
}

static int restore_into(struct cli *cli, const struct export_order *order, const struct staging *staging,
			struct outcome *outcome)
{
	struct err err = {""};
	int code = !strcmp(cli->args[0], "latest") ? restore_latest(cli, order, staging, outcome)
						   : restore_named(cli, order, staging, outcome);
	if (code != EXIT_OK && code != EXIT_PARTIAL)
		return code;
	if (staging_publish(staging, &err) < 0)
		return cli_fail(cli, EXIT_FAILED, "%s", err.text);
	report(cli, order, outcome);
	return code == EXIT_PARTIAL ? say_older(cli, order, outcome) : code;
}

int export_run(struct cli *cli, const struct export_order *order)
{
	struct staging staging;
	struct err err = {""};
	int code = cli_repo(cli);
	if (code)
		return code;
	cli_catch_interrupt();
	int rc = staging_open(order->to, &staging, &err);
	if (rc < 0)
		return cli_fail(cli, exit_code_of(rc), "%s", err.text);
	struct outcome outcome = {.passed_over = json_array()};
	code = restore_into(cli, order, &staging, &outcome);
	staging_close(&staging);
	json_decref(outcome.passed_over);
	return code;
}

int export_order_read(const struct cli *cli, struct export_order *order)
{
	order->to = cli_text(cli, "to");
	if (!order->to)
		return cli_fail(cli, EXIT_USAGE, "--to DIR is missing: where shall the files go?");
	uint64_t world = cli_number(cli, "world", 0);
	bool given = cli_number(cli, "world", UINT64_MAX) != UINT64_MAX;
	if (given && (world == 0 || world > RANK_MAX))
		return cli_fail(cli, EXIT_USAGE, "--world %" PRIu64 ": 1 to %d ranks", world, RANK_MAX);
	order->wish = (struct export_wish){.world = (uint32_t)world, .groups = order->groups, .globs = order->globs};
	static const struct setting size = {.type = SETTING_BYTES, .min = 1, .max = INT64_MAX};
	int code = amount_read(cli, "max-file", &size, EXPORT_FILE_MAX, &order->wish.file_max);
	if (!code)
		code = filter_read(cli, "group", order->groups);
	return code ? code : filter_read(cli, "tensor", order->globs);
}
