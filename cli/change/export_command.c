/* ckpt export: a checkpoint in the layout that other programs read. */
#include "change/export_run.h"

#include <string.h>

static const struct {
	const char *name;
	enum export_form form;
} formats[] = {{"hf", EXPORT_HF}, {"safetensors", EXPORT_PLAIN}, {"dcp-hf", EXPORT_DCP}};

static int run(struct cli *cli)
{
	struct export_order order = {.done = "exported", .format = cli_text(cli, "format")};
	if (!order.format)
		return cli_fail(cli, EXIT_USAGE, "--format is missing: hf, safetensors or dcp-hf");
	int code = export_order_read(cli, &order);
	if (code)
		return code;
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (!strcmp(order.format, formats[i].name))
			order.wish.form = formats[i].form;
	if (!order.wish.form)
		return cli_fail(cli, EXIT_USAGE, "--format %s: hf, safetensors or dcp-hf", order.format);
	if (order.wish.form == EXPORT_HF && order.wish.world)
		return cli_fail(cli, EXIT_USAGE, "--world: files of Hugging Face hold whole tensors");
	code = beside_read(cli, &order.beside);
	if (!code)
		code = export_run(cli, &order);
	beside_free(&order.beside);
	return code;
}

static const struct option_spec options[] = {
	{"to", OPTION_TEXT, "DIR", "where to: a directory that does not exist yet, or is empty"},
	{"format", OPTION_TEXT, "FORMAT", "hf, safetensors or dcp-hf"},
	{"world", OPTION_NUMBER, "N",
	 "into how many shards (dcp-hf: default as saved; safetensors: default whole tensors)"},
	{"group", OPTION_REPEAT, "NAME", "only this group of tensors, such as params (may be repeated)"},
	{"tensor", OPTION_REPEAT, "GLOB", "only tensors whose name matches (may be repeated)"},
	{"max-file", OPTION_TEXT, "SIZE", "files of at most this much data (default 5G)"},
	{"with", OPTION_REPEAT, "PATH",
	 "copy this file, or the files of this directory, beside them: config.json, the tokenizer (may be repeated)"},
	{"progress", OPTION_FLAG, NULL, "progress lines on stderr although it is no terminal"},
	{NULL},
};

const struct command command_export = {
	.name = "export",
	.summary = "write a checkpoint as other programs read it",
	.detail =
		"hf: model.safetensors, or model-00001-of-0000N.safetensors with model.safetensors.index.json: whole\n"
		"tensors, as transformers reads them. Give --group params to leave out the optimizer's state.\n"
		"dcp-hf: shard-0000R-model-00001-of-0000N.safetensors, as the HuggingFaceStorageReader of\n"
		"torch.distributed.checkpoint reads them. safetensors: what ckpt restore writes.\n"
		"hf and dcp-hf leave out blobs. --with copies what else a reader needs, such as config.json.\n"
		"Every byte is checked against its digest. DIR appears complete or not at all.",
	.args = "STEP|latest",
	.min_args = 1,
	.max_args = 1,
	.options = options,
	.run = run,
};
