/* ckpt restore: a checkpoint as safetensors files, from the store alone. */
#include "change/export_run.h"

static int run(struct cli *cli)
{
	struct export_order order = {.done = "restored"};
	int code = export_order_read(cli, &order);
	return code ? code : export_run(cli, &order);
}

static const struct option_spec options[] = {
	{"to", OPTION_TEXT, "DIR", "where to: a directory that does not exist yet, or is empty"},
	{"world", OPTION_NUMBER, "N", "split the rows of every tensor over N ranks, a set of files each"},
	{"group", OPTION_REPEAT, "NAME", "only this group of tensors (may be repeated)"},
	{"tensor", OPTION_REPEAT, "GLOB", "only tensors whose name matches (may be repeated)"},
	{"max-file", OPTION_TEXT, "SIZE", "split groups into files of at most this much data (default 5G)"},
	{"progress", OPTION_FLAG, NULL, "progress lines on stderr although it is no terminal"},
	{NULL},
};

const struct command command_restore = {
	.name = "restore",
	.summary = "write a checkpoint as safetensors files, for any number of ranks",
	.detail =
		"Reads the store alone and asks no daemon. Checks every byte against its digest. \"latest\" takes the\n"
		"newest checkpoint that can be read, and says why others were passed over (exit code 3). \"healthy\"\n"
		"takes the newest one that training called healthy (ckpt_mark).\n"
		"\n"
		"Without --world the tensors are whole, one file per group: GROUP.safetensors. With --world N every\n"
		"tensor is split by its first dimension into N balanced parts, and each rank has a file per group.\n"
		"DIR appears complete or not at all.",
	.args = "STEP|latest|healthy",
	.min_args = 1,
	.max_args = 1,
	.options = options,
	.run = run,
};
