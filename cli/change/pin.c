/* ckpt pin, ckpt unpin: the mark that keeps a checkpoint from retention. It stands beside the checkpoint's manifest, so that it
 * survives the loss of the catalog, and needs no daemon. */
#include "change/removal.h"

#include "base/clock.h"

#include <string.h>

static int report(const struct cli *cli, const struct checkpoint_ref *ref, bool pinned, bool changed, const char *note)
{
	char name[NAME_DIR_MAX + NAME_JOB_MAX];
	if (!cli->json) {
		text_checkpoint(ref, name, sizeof(name));
		out(TONE_PLAIN, "%s is %spinned%s\n", name, pinned ? "" : "not ", changed ? "" : ", as before");
		return EXIT_OK;
	}
	json_t *doc = json_checkpoint(cli, ref);
	json_object_set_new(doc, "pinned", json_boolean(pinned));
	json_object_set_new(doc, "changed", json_boolean(changed));
	json_object_set_new(doc, "note", note ? json_text(note) : json_null());
	json_emit(doc);
	return EXIT_OK;
}

static int run_pin(struct cli *cli)
{
	struct checkpoint_ref ref;
	struct err err = {0};
	struct pin pin = {.pinned_at = clock_wall()};
	const char *note = cli_text(cli, "note");
	if (note && strlen(note) >= sizeof(pin.note))
		return cli_fail(cli, EXIT_USAGE, "--note has %zu bytes, at most %zu are kept", strlen(note),
				sizeof(pin.note) - 1);
	int lock, rc = 0;
	int code = removal_lock(cli, &lock);
	if (!code)
		code = cli_pick(cli, cli->args[0], &ref);
	if (!code) {
		pin.id = ref.id;
		memcpy(pin.job, ref.job, sizeof(pin.job));
		memcpy(pin.note, note ? note : "", strlen(note ? note : "") + 1);
		rc = checkpoint_put_pin(cli->repo, &pin, &err);
	}
	removal_unlock(cli, lock);
	if (code)
		return code;
	if (rc < 0)
		return cli_fail(cli, exit_code_of(rc), "%s", err.text);
	return report(cli, &ref, true, true, pin.note);
}

static int run_unpin(struct cli *cli)
{
	struct checkpoint_ref ref;
	struct err err = {0};
	int code = cli_pick(cli, cli->args[0], &ref);
	if (code)
		return code;
	int rc = checkpoint_drop_pin(cli->repo, ref.job, ref.id, &err);
	if (rc < 0 && rc != -ENOENT)
		return cli_fail(cli, exit_code_of(rc), "%s", err.text);
	return report(cli, &ref, false, rc == 0, NULL);
}

static const struct option_spec options[] = {
	{"note", OPTION_TEXT, "TEXT", "why: shown by ckpt show; replaces an earlier note"},
	{NULL},
};

const struct command command_pin = {
	.name = "pin",
	.summary = "keep a checkpoint from being removed by retention",
	.detail = "The mark stands in the store beside the checkpoint and survives the loss of the catalog. Pinning a\n"
		  "pinned checkpoint replaces its note.",
	.args = "STEP|latest",
	.min_args = 1,
	.max_args = 1,
	.options = options,
	.run = run_pin,
};

const struct command command_unpin = {
	.name = "unpin",
	.summary = "let retention remove a checkpoint again",
	.detail = "A checkpoint that is not pinned stays so, with exit code 0.",
	.args = "STEP|latest",
	.min_args = 1,
	.max_args = 1,
	.run = run_unpin,
};
