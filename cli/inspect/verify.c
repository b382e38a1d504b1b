/* ckpt verify: reads checkpoints against their own digests and names what is damaged. */
#include "frame/output.h"
#include "frame/progress.h"
#include "frame/target.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "store/check/repair.h"
#include "store/check/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FINDINGS_KEPT = 10000 };

/* One verification in progress. */
struct job {
	struct cli *cli;
	const struct checkpoint_ref *ref;
	struct progress *progress; /* over all verifications */
	struct verify_options opts;
	json_t *findings; /* NULL: text */
	struct repair *repair;
	uint64_t told;
	char first[MARK_TEXT_MAX]; /* the first finding, for HEALTH.json */
};

static void describe(char *dst, size_t size, const char *file, const char *tensor, uint64_t from, uint64_t to,
		     const char *text)
{
	char range[64] = "";
	if (to > from)
		snprintf(range, sizeof(range), ", bytes %" PRIu64 " to %" PRIu64, from, to);
	snprintf(dst, size, "%s%s%s%s: %s", file, *tensor ? ", tensor " : "", tensor, range, text);
}

static void on_finding(void *arg, const char *file, const char *tensor, uint64_t from, uint64_t to, const char *text)
{
	struct job *job = arg;
	char line[MARK_TEXT_MAX];
	describe(line, sizeof(line), file, tensor, from, to, text);
	if (job->repair)
		repair_note(job->repair, file);
	if (!job->told++)
		snprintf(job->first, sizeof(job->first), "%s", line);
	if (job->told > FINDINGS_KEPT)
		return;
	if (job->findings) {
		json_array_append_new(job->findings, json_pack("{s:o, s:o, s:I, s:I, s:o}", "file", json_text(file),
							       "tensor", json_text(tensor), "from", (json_int_t)from,
							       "to", (json_int_t)to, "text", json_text(text)));
		return;
	}
	progress_end(job->progress);
	out(TONE_BAD, "damaged  ");
	out(TONE_PLAIN, "%s\n", line);
}

static int on_progress(void *arg, uint64_t done, uint64_t total)
{
	struct job *job = arg;
	return progress_step(job->progress, done, total);
}

static const char *result_name(int rc)
{
	return !rc                ? "ok"
	       : rc == -EBADMSG   ? "damaged"
	       : rc == -EIO       ? "unreadable"
	       : rc == -ECANCELED ? "cancelled"
	       : rc == -ENOENT    ? "removed"
				  : "failed";
}

static void print_summary(const struct job *job, int rc, const struct verify_result *r, const struct err *err)
{
	char name[NAME_DIR_MAX + NAME_JOB_MAX], size[16];
	text_checkpoint(job->ref, name, sizeof(name));
	bytes_human(size, sizeof(size), r->bytes);
	if (r->findings > FINDINGS_KEPT)
		out(TONE_WARN, "and %" PRIu64 " more findings\n", r->findings - FINDINGS_KEPT);
	out(rc ? TONE_BAD : TONE_GOOD, "%s", result_name(rc));
	out(TONE_PLAIN, "  %s: %s of %" PRIu64 " files checked", name, size, r->files);
	if (rc)
		out(TONE_PLAIN, ", %s", err->text);
	out(TONE_PLAIN, "\n");
}

static json_t *summary_json(const struct job *job, int rc, const struct verify_result *r, uint64_t ns,
			    const struct err *err)
{
	char name[NAME_DIR_MAX];
	name_dir(job->ref->id, name);
	json_t *o = json_pack("{s:s, s:s, s:I, s:i, s:s, s:s}", "job", job->ref->job, "name", name, "step",
			      (json_int_t)job->ref->id.step, "epoch", (int)job->ref->id.epoch, "result",
			      result_name(rc), "depth", job->opts.depth == VERIFY_QUICK ? "quick" : "data");
	json_object_set_new(o, "share", json_real(job->opts.depth == VERIFY_QUICK ? 0 : job->opts.share));
	json_object_set_new(o, "files", json_integer((json_int_t)r->files));
	json_object_set_new(o, "bytes", json_integer((json_int_t)r->bytes));
	json_object_set_new(o, "leaves", json_integer((json_int_t)r->leaves));
	json_object_set_new(o, "damaged_leaves", json_integer((json_int_t)r->damaged_leaves));
	json_object_set_new(o, "findings_total", json_integer((json_int_t)r->findings));
	json_object_set_new(o, "findings", job->findings);
	json_object_set_new(o, "elapsed_ns", json_integer((json_int_t)ns));
	json_object_set_new(o, "error", rc ? json_text(err->text) : json_null());
	return o;
}

/* HEALTH.json says what a full read found, or that any check found damage. */
static int mark(const struct job *job, int rc, bool repaired)
{
	bool full = job->opts.depth == VERIFY_DATA && job->opts.share >= 1;
	if ((!cli_flag(job->cli, "mark") && !repaired) || (rc && rc != -EBADMSG) || (!rc && !full))
		return EXIT_OK;
	struct health health = {.id = job->ref->id, .verified_at = clock_wall(), .damaged = rc != 0};
	struct err err = {0};
	snprintf(health.job, sizeof(health.job), "%s", job->ref->job);
	snprintf(health.detail, sizeof(health.detail), "%s", job->first);
	int put = checkpoint_put_health(job->cli->repo, &health, &err);
	return put ? cli_fail(job->cli, EXIT_FAILED, "%s", err.text) : EXIT_OK;
}

/* ---- repair ------------------------------------------------------------------------------------------------------- */

enum repair_state { REPAIR_NONE = 0, REPAIR_POSSIBLE, REPAIR_DONE, REPAIR_IMPOSSIBLE };

/* What came of the damage, for people and programs. */
struct mend {
	enum repair_state state;
	struct repair_result result;
	struct err err; /* why not */
};

static const char *const repair_names[] = {"none", "possible", "repaired", "impossible"};

static void print_mend(const struct mend *mend)
{
	if (mend->state == REPAIR_POSSIBLE)
		out(TONE_WARN, "repairable: intact copies exist; --repair puts them in place\n");
	else if (mend->state == REPAIR_DONE)
		out(TONE_GOOD,
		    "repaired: %" PRIu64 " files, and %" PRIu64 " names in other checkpoints that share them\n",
		    mend->result.mended, mend->result.siblings);
	else if (mend->state == REPAIR_IMPOSSIBLE)
		out(TONE_BAD, "not repairable: %s\n", mend->err.text);
}

static json_t *mend_json(const struct mend *mend)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:o}", "state", repair_names[mend->state], "files",
			 (json_int_t)mend->result.files, "mended", (json_int_t)mend->result.mended, "leaves",
			 (json_int_t)mend->result.leaves, "siblings", (json_int_t)mend->result.siblings, "error",
			 mend->state == REPAIR_IMPOSSIBLE ? json_text(mend->err.text) : json_null());
}

/* Only what was read in full says what is good. */
static void mend_one(const struct job *job, int rc, struct mend *mend)
{
	*mend = (struct mend){.state = REPAIR_NONE};
	if (!rc || (rc != -EBADMSG && rc != -EIO))
		return;
	bool trial = !cli_flag(job->cli, "repair");
	int mended = job->repair ? repair_run(job->repair, trial, NULL, &mend->result, &mend->err)
				 : err_set(&mend->err, -ENOMEM, "out of memory");
	mend->state = mended ? REPAIR_IMPOSSIBLE : trial ? REPAIR_POSSIBLE : REPAIR_DONE;
}

static int verify_once(struct job *job, struct verify_result *result, struct err *err)
{
	job->told = 0;
	job->first[0] = 0;
	if (job->findings)
		json_array_clear(job->findings);
	job->opts.finding = on_finding;
	job->opts.progress = on_progress;
	job->opts.arg = job;
	*err = (struct err){{0}};
	return verify_checkpoint(job->cli->repo, job->ref->job, job->ref->id, &job->opts, result, err);
}

static int verify_one(struct cli *cli, const struct checkpoint_ref *ref, const struct verify_options *opts,
		      struct progress *progress, json_t *list)
{
	struct job job = {.cli = cli, .ref = ref, .progress = progress, .opts = *opts};
	job.findings = list ? json_array() : NULL;
	struct verify_result result;
	struct mend mend;
	struct err err;
	uint64_t began = clock_now();
	if (repair_new(cli->repo, ref->job, ref->id, &job.repair))
		job.repair = NULL;
	int rc = verify_once(&job, &result, &err);
	progress_end(progress);
	if (rc && checkpoint_gone(cli->repo, ref->job, ref->id))
		rc = err_set(&err, -ENOENT, "removed while it was read");
	mend_one(&job, rc, &mend);
	repair_free(job.repair);
	job.repair = NULL;
	if (!list && mend.state == REPAIR_DONE)
		print_mend(&mend);
	if (mend.state == REPAIR_DONE) /* what counts, and what the mark says, is what stands there now */
		rc = verify_once(&job, &result, &err);
	progress_end(progress);
	if (list) {
		json_t *o = summary_json(&job, rc, &result, clock_now() - began, &err);
		json_object_set_new(o, "repair", mend_json(&mend));
		json_array_append_new(list, o);
	} else {
		print_summary(&job, rc, &result, &err);
		if (mend.state != REPAIR_DONE)
			print_mend(&mend);
	}
	if (rc == -ENOENT)
		return EXIT_OK;
	if (rc && rc != -EBADMSG)
		cli_fail(cli, 0, "%s", err.text);
	int marked = mark(&job, rc, mend.state == REPAIR_DONE);
	return rc && mend.state == REPAIR_POSSIBLE ? EXIT_REPAIRABLE : rc ? exit_code_of(rc) : marked;
}

/* The worst of two codes: cancelled, then failed, then corrupt, then what can be repaired. */
static int worse(int a, int b)
{
	static const int order[] = {EXIT_CANCELLED, EXIT_FAILED, EXIT_CORRUPT, EXIT_REPAIRABLE};
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		if (a == order[i] || b == order[i])
			return order[i];
	}
	return a ? a : b;
}

static size_t count_committed(const struct checkpoint_ref *refs, size_t n)
{
	size_t count = 0;
	for (size_t i = 0; i < n; i++)
		count += refs[i].state == CHECKPOINT_COMMITTED;
	return count;
}

static int verify_refs(struct cli *cli, const struct checkpoint_ref *refs, size_t n, const struct verify_options *opts)
{
	json_t *list = cli->json ? json_array() : NULL;
	struct progress progress;
	size_t total = count_committed(refs, n), nth = 0;
	int code = EXIT_OK;
	progress_start(&progress, cli, "verified");
	for (size_t i = 0; i < n && code != EXIT_CANCELLED; i++) {
		if (refs[i].state != CHECKPOINT_COMMITTED)
			continue;
		progress_next(&progress, ++nth, total);
		code = worse(code, verify_one(cli, &refs[i], opts, &progress, list));
		if (cli_interrupted())
			code = EXIT_CANCELLED;
	}
	if (!list)
		return code;
	json_t *doc = json_document(cli);
	json_object_set_new(doc, "repository", json_text(cli->repo->path));
	json_object_set_new(doc, "checkpoints", list);
	json_emit(doc);
	return code;
}

static int verify_all(struct cli *cli, const struct verify_options *opts)
{
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	size_t n;
	int code = cli_scan(cli, &refs, &n);
	if (code)
		return code;
	return count_committed(refs, n) ? verify_refs(cli, refs, n, opts) : cli_say_none(cli);
}

static int verify_picked(struct cli *cli, const struct verify_options *opts)
{
	size_t n = cli->nargs ? (size_t)cli->nargs : 1;
	AUTO_FREE struct checkpoint_ref *refs = calloc(n, sizeof(*refs));
	if (!refs)
		return cli_fail(cli, EXIT_FAILED, "out of memory");
	for (size_t i = 0; i < n; i++) {
		int code = cli_pick(cli, cli->nargs ? cli->args[i] : NULL, &refs[i]);
		if (code)
			return code;
	}
	return verify_refs(cli, refs, n, opts);
}

static int parse(const struct cli *cli, struct verify_options *opts)
{
	bool quick = cli_flag(cli, "quick"), data = cli_flag(cli, "read-data"),
	     subset = cli_text(cli, "read-data-subset");
	if (quick + data + subset > 1)
		return cli_fail(cli, EXIT_USAGE, "--quick, --read-data and --read-data-subset exclude each other");
	if (cli_flag(cli, "repair") && (quick || subset))
		return cli_fail(cli, EXIT_USAGE,
				"--repair reads everything: --quick and --read-data-subset exclude it");
	if (cli_flag(cli, "all") && cli->nargs)
		return cli_fail(cli, EXIT_USAGE, "--all and a step exclude each other");
	*opts = (struct verify_options){
		.depth = quick ? VERIFY_QUICK : VERIFY_DATA,
		.share = cli_share(cli, "read-data-subset", 1),
		.seed = cli_number(cli, "seed", clock_wall()),
		.threads = (unsigned)min_u64(cli_number(cli, "threads", 0), 64),
	};
	return EXIT_OK;
}

static int run(struct cli *cli)
{
	struct verify_options opts;
	int code = parse(cli, &opts);
	if (code)
		return code;
	cli_catch_interrupt();
	return cli_flag(cli, "all") ? verify_all(cli, &opts) : verify_picked(cli, &opts);
}

static const struct option_spec options[] = {
	{"all", OPTION_FLAG, NULL, "every checkpoint, of all jobs unless one is named"},
	{"quick", OPTION_FLAG, NULL, "documents, sidecars, file sizes and headers, no data"},
	{"read-data", OPTION_FLAG, NULL, "and every byte of data (the default)"},
	{"read-data-subset", OPTION_SHARE, "SHARE", "and a random share of the data, such as 5%"},
	{"seed", OPTION_NUMBER, "N", "chooses the share (default: another share each time)"},
	{"mark", OPTION_FLAG, NULL, "record the result in HEALTH.json, for ckpt list and the daemon"},
	{"repair", OPTION_FLAG, NULL, "replace damaged files by intact copies from other checkpoints, and mark"},
	{"threads", OPTION_NUMBER, "N", "digest workers, at most 8 (default: one per core)"},
	{"progress", OPTION_FLAG, NULL, "progress lines on stderr although it is no terminal"},
	{NULL},
};

const struct command command_verify = {
	.name = "verify",
	.summary = "read checkpoints against their digests and name what is damaged",
	.detail = "STEP is a number (its newest epoch), \"1000.e0003\", or the directory's name. Default: latest.\n"
		  "Each finding is a line on stdout with file, tensor and byte range. Reads go past the page cache.\n"
		  "With --mark, a full read that finds nothing marks the checkpoint verified, and any damage marks it\n"
		  "damaged. Without --mark and --repair nothing is written.\n"
		  "Exit code 21: there is damage. 20: there is damage, and intact copies of all of it exist.",
	.args = "[STEP|latest]...",
	.max_args = -1,
	.options = options,
	.run = run,
};
