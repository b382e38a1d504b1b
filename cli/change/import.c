/* ckpt import: safetensors files become a committed checkpoint, from which a job can start. */
#include "change/import.h"

#include "base/cleanup.h"
#include "frame/output.h"
#include "frame/progress.h"
#include "frame/target.h"
#include "store/manage/deposit.h"

#include <inttypes.h>
#include <string.h>

struct import {
	struct cli *cli;
	enum import_format format;
	const char *job, *group;
	struct import_files files;
	struct import_table table;
	struct layout layout;
	struct deposit deposit;
	struct progress progress;
};

/* ---- what to do */

static int parse(struct import *im)
{
	static const char *const names[] = {
		[IMPORT_HF] = "hf", [IMPORT_SAFETENSORS] = "safetensors", [IMPORT_DCP] = "dcp-hf"};
	const char *format = cli_text(im->cli, "format");
	struct err err = {0};
	for (int i = IMPORT_HF; format && i <= IMPORT_DCP; i++)
		if (!strcmp(format, names[i]))
			im->format = (enum import_format)i;
	if (!im->format)
		return cli_fail(im->cli, EXIT_USAGE, "--format %s: hf, safetensors or dcp-hf",
				format ? format : "is missing");
	im->group = cli_text(im->cli, "group");
	if (im->group && name_check_group(im->group, &err) < 0)
		return cli_fail(im->cli, EXIT_USAGE, "--group: %s", err.text);
	uint64_t step = cli_number(im->cli, "step", 0), epoch = cli_number(im->cli, "epoch", 0);
	if (step > STEP_MAX)
		return cli_fail(im->cli, EXIT_USAGE, "--step %" PRIu64 ": at most %llu", step, STEP_MAX);
	if (epoch > EPOCH_MAX)
		return cli_fail(im->cli, EXIT_USAGE, "--epoch %" PRIu64 ": at most %u", epoch, EPOCH_MAX);
	im->deposit.id = (struct step_id){step, (uint32_t)epoch};
	int code = cli_job(im->cli, &im->job);
	im->job = im->job ? im->job : "default";
	return code;
}

/* Makes the repository when there is none. */
static int open_repo(struct import *im)
{
	struct err err = {0};
	const char *path = cli_text(im->cli, "repo");
	path = path ? path : getenv("CKPT_REPO");
	if (path && *path && repo_create(path, &err) < 0)
		return cli_fail(im->cli, EXIT_NO_REPO, "%s", err.text);
	return cli_repo(im->cli);
}

/* Unless it was given: after all epochs that the job has, so that the import is its latest checkpoint. */
static int choose_epoch(struct import *im, struct err *err)
{
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	size_t n;
	if (cli_number(im->cli, "epoch", UINT64_MAX) != UINT64_MAX)
		return 0;
	int rc = repo_scan(im->cli->repo, im->job, &refs, &n, err);
	im->deposit.id.epoch = !rc && n ? refs[n - 1].id.epoch + 1 : 1;
	if (im->deposit.id.epoch > EPOCH_MAX)
		return err_set(err, -EOVERFLOW, "job %s has used all %u epochs", im->job, EPOCH_MAX);
	return rc;
}

/* ---- the work */

static int read_piece(void *arg, uint32_t piece, uint64_t from, void *data, uint64_t len, struct err *err)
{
	struct import *im = arg;
	const struct layout_piece *p = &im->layout.pieces[piece];
	const struct import_place *place = &im->table.places[p->entry][p->source];
	return import_files_read(&im->files, place->file, place->at + from, data, len, err);
}

static int on_progress(void *arg, uint64_t done, uint64_t total)
{
	struct import *im = arg;
	return progress_step(&im->progress, done, total);
}

static int lay_out(struct import *im, struct err *err)
{
	const struct registration *regs[] = {&im->table.reg};
	/* One rank has all of the job, whatever the world: so holes are found. */
	int rc = layout_make(regs, 1, true, LAYOUT_FILE_MAX, &im->layout, err);
	im->table.reg.world = im->layout.world = im->table.world;
	for (uint32_t i = 0; i < im->layout.npieces && !rc; i++) {
		const struct layout_piece *p = &im->layout.pieces[i];
		const struct entry *e = &im->table.reg.entries[p->entry];
		if (!region_equal(&e->shape, &p->region, &e->pieces[p->source]))
			rc = err_set(err, -EINVAL, "%s was cut while it was laid out", e->name);
	}
	return rc;
}

static int deposit(struct import *im, struct err *err)
{
	struct repo *repo = im->cli->repo;
	int lock = disk_lock(repo->disk, repo->root, REPO_LOCK);
	if (lock < 0)
		return err_set(err, lock,
			       lock == -EWOULDBLOCK ? "a daemon has the repository %s: end it first" : "cannot lock %s",
			       repo->path);
	int rc = choose_epoch(im, err);
	if (!rc) {
		im->deposit.repo = repo;
		im->deposit.job = im->job;
		im->deposit.node = "import";
		im->deposit.reg = &im->table.reg;
		im->deposit.layout = &im->layout;
		im->deposit.read = read_piece;
		im->deposit.progress = on_progress;
		im->deposit.arg = im;
		progress_start(&im->progress, im->cli, "imported");
		rc = deposit_write(&im->deposit, err);
		progress_end(&im->progress);
	}
	disk_close_file(repo->disk, lock);
	return rc;
}

static void report(const struct import *im)
{
	struct checkpoint_ref ref = {.id = im->deposit.id};
	char name[NAME_DIR_MAX + NAME_JOB_MAX], size[16];
	snprintf(ref.job, sizeof(ref.job), "%s", im->job);
	if (!im->cli->json) {
		out(TONE_PLAIN, "imported %s: %u tensors, %s in %" PRIu64 " files\n",
		    text_checkpoint(&ref, name, sizeof(name)), im->table.reg.nentries,
		    bytes_human(size, sizeof(size), im->deposit.bytes), im->deposit.files);
		return;
	}
	json_t *doc = json_checkpoint(im->cli, &ref);
	json_object_set_new(doc, "tensors", json_integer(im->table.reg.nentries));
	json_object_set_new(doc, "files", json_integer((json_int_t)im->deposit.files));
	json_object_set_new(doc, "bytes", json_integer((json_int_t)im->deposit.bytes));
	json_emit(doc);
}

/* What is wrong with the files that were given is a failure, not damage of the repository. */
static int import_read(struct import *im, struct err *err)
{
	int rc = import_files_open(im->cli->args[0], im->format, im->group, &im->files, err);
	if (!rc)
		rc = import_table_make(&im->files, im->format, &im->table, err);
	if (!rc)
		rc = lay_out(im, err);
	return rc;
}

static int run(struct cli *cli)
{
	struct import im = {.cli = cli, .files.dir = -1};
	struct err err = {0};
	int code = parse(&im);
	if (code)
		return code;
	cli_catch_interrupt();
	int rc = import_read(&im, &err);
	code = rc < 0 ? cli_fail(cli, EXIT_FAILED, "%s", err.text) : open_repo(&im);
	if (!code) {
		rc = deposit(&im, &err);
		code = rc == -ECANCELED     ? EXIT_CANCELLED
		       : rc == -EWOULDBLOCK ? EXIT_LOCKED
		       : rc < 0             ? EXIT_FAILED
					    : EXIT_OK;
		if (code)
			cli_fail(cli, code, "%s%s", err.text, rc == -ECANCELED ? "; nothing was left behind" : "");
		else
			report(&im);
	}
	layout_free(&im.layout);
	import_table_free(&im.table);
	import_files_close(&im.files);
	return code;
}

static const struct option_spec options[] = {
	{"format", OPTION_TEXT, "FORMAT", "hf, safetensors or dcp-hf"},
	{"step", OPTION_NUMBER, "N", "the step that it becomes (default 0)"},
	{"epoch", OPTION_NUMBER, "N", "the epoch (default: after all that the job has, so that it is the latest)"},
	{"group", OPTION_TEXT, "NAME", "the group of all tensors (default params; safetensors: by the files' names)"},
	{"progress", OPTION_FLAG, NULL, "progress lines on stderr although it is no terminal"},
	{NULL},
};

const struct command command_import = {
	.name = "import",
	.summary = "make a checkpoint from safetensors files, for a job to start from",
	.detail = "hf: a model as transformers writes it; all that model.safetensors.index.json names must be there.\n"
		  "dcp-hf: shards of the HuggingFaceStorageWriter of torch.distributed.checkpoint. safetensors: what\n"
		  "ckpt restore writes, at any --world, or any other.\n"
		  "A job whose tensors have these names, types and shapes restores it at any number of ranks. The\n"
		  "repository is made if it is missing. The job is --job, else CKPT_JOB, else \"default\". The\n"
		  "checkpoint appears complete or not at all. Exit code 11: a daemon has the repository.",
	.args = "DIR",
	.min_args = 1,
	.max_args = 1,
	.options = options,
	.run = run,
};
