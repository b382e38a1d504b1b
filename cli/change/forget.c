/* ckpt forget: removes checkpoints that no rule keeps, or those that are named. Decides as the daemon does (store/manage/retention.h). */
#include "change/removal.h"
#include "frame/progress.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "store/manage/freed.h"
#include "store/manage/keeping.h"
#include "store/manage/trash.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum fate { FATE_STAYS = 0, FATE_GOES, FATE_REMOVED, FATE_FAILED };

struct forgetting {
	struct cli *cli;
	char job[NAME_JOB_MAX];
	struct retention_policy policy;
	bool named; /* STEPs decide, not rules */
	struct keeping k;
	enum fate *fates; /* of k.items */
	uint64_t *frees;
	uint64_t freed;
	size_t goes, removed;
};

/* ---- what is wanted */

static int read_policy(struct forgetting *f)
{
	struct retention_policy *p = &f->policy;
	p->keep_last = (uint32_t)min_u64(cli_number(f->cli, "keep-last", 0), UINT32_MAX);
	p->keep_every = cli_number(f->cli, "keep-every", 0);
	p->keep_hourly = (uint32_t)min_u64(cli_number(f->cli, "keep-hourly", 0), UINT32_MAX);
	p->keep_daily = (uint32_t)min_u64(cli_number(f->cli, "keep-daily", 0), UINT32_MAX);
	p->give_up_runs = cli_flag(f->cli, "earlier-runs");
	int code = removal_duration(f->cli, "keep-within", 0, &p->keep_within_ns);
	if (code)
		return code;
	bool rules = p->keep_last || p->keep_every || p->keep_within_ns || p->keep_hourly || p->keep_daily;
	f->named = f->cli->nargs > 0;
	if (rules && f->named)
		return cli_fail(f->cli, EXIT_USAGE, "name checkpoints or give rules, not both");
	if (!rules && !f->named)
		return cli_fail(f->cli, EXIT_USAGE,
				"nothing says what may go: name checkpoints, or give a rule such as --keep-last 5");
	return EXIT_OK;
}

/* The job that is meant stands in f->job; "" when the repository is empty. */
static int find_job(struct forgetting *f)
{
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	struct checkpoint_ref named;
	const char *job;
	size_t n;
	int code = cli_scan_job(f->cli, &refs, &n);
	if (!code)
		code = cli_job(f->cli, &job);
	if (!code && f->named && !n) /* nothing is there to be planned for: it says so */
		code = cli_pick(f->cli, f->cli->args[0], &named);
	if (code)
		return code;
	snprintf(f->job, sizeof(f->job), "%s", job ? job : n ? refs[0].job : "");
	return EXIT_OK;
}

/* What --force is needed for. The newest one is it where none was ever read back: no other is known to be any better. */
static unsigned shields(const struct forgetting *f, size_t at)
{
	unsigned shields =
		RETENTION_PINNED | RETENTION_TAGGED | RETENTION_VERIFIED | RETENTION_HEALTHY | RETENTION_NEWEST;
	for (size_t i = 0; i < f->k.n; i++)
		if (f->k.items[i].keep & RETENTION_VERIFIED)
			shields &= ~(unsigned)RETENTION_NEWEST;
	return f->k.items[at].keep & shields;
}

static int choose(struct forgetting *f, const char *text)
{
	struct checkpoint_ref ref;
	char name[NAME_DIR_MAX], why[RETENTION_TEXT_MAX];
	int code = cli_pick(f->cli, text, &ref);
	if (code)
		return code;
	for (size_t i = 0; i < f->k.n; i++) {
		if (step_compare(f->k.items[i].id, ref.id) != 0)
			continue;
		name_dir(ref.id, name);
		retention_text(shields(f, i), why);
		if (*why && !cli_flag(f->cli, "force"))
			return cli_fail(f->cli, EXIT_FAILED, "%s is protected (%s): --force removes it nevertheless",
					name, why);
		f->goes += f->fates[i] != FATE_GOES;
		f->fates[i] = FATE_GOES;
	}
	return EXIT_OK;
}

static int decide(struct forgetting *f)
{
	int code = EXIT_OK;
	retention_apply(&f->policy, clock_wall(), f->k.items, f->k.n);
	for (int i = 0; f->named && !code && i < f->cli->nargs; i++)
		code = choose(f, f->cli->args[i]);
	for (size_t i = 0; i < f->k.n; i++) {
		if (!f->named && !f->k.items[i].keep) {
			f->fates[i] = FATE_GOES;
			f->goes++;
		}
		if (f->fates[i] == FATE_GOES)
			f->k.items[i].keep = 0;
	}
	return code;
}

static int count(struct forgetting *f)
{
	struct freed freed = {0};
	struct err err = {0};
	int rc = 0;
	for (size_t i = 0; !rc && i < f->k.n; i++) {
		char name[NAME_DIR_MAX];
		name_dir(f->k.items[i].id, name);
		if (f->fates[i] == FATE_GOES)
			rc = freed_add(&freed, f->cli->repo, f->job, name, i, &err);
	}
	if (!rc)
		f->freed = freed_count(&freed, f->frees);
	freed_free(&freed);
	return rc < 0 ? cli_fail(f->cli, exit_code_of(rc), "%s", err.text) : EXIT_OK;
}

static int plan(struct forgetting *f)
{
	struct err err = {0};
	int rc = keeping_load(f->cli->repo, f->job, &f->k, &err);
	if (rc < 0)
		return cli_fail(f->cli, exit_code_of(rc), "%s", err.text);
	if (f->k.blind)
		cli_note(f->cli, "%u tag%s cannot be read: until that is mended all checkpoints count as tagged",
			 f->k.blind, f->k.blind == 1 ? "" : "s");
	f->fates = calloc(f->k.n + 1, sizeof(*f->fates));
	f->frees = calloc(f->k.n + 1, sizeof(*f->frees));
	if (!f->fates || !f->frees)
		return cli_fail(f->cli, EXIT_FAILED, "out of memory");
	int code = decide(f);
	return code ? code : count(f);
}

/* ---- removal */

struct moved {
	size_t item;
	char trash[TRASH_NAME_MAX];
};

/* Oldest first, so that what is left is the newest whatever happens. */
static int move_all(struct forgetting *f, struct moved *moved, size_t *n)
{
	struct err err = {0};
	int rc = keeping_settle(f->cli->repo, f->job, &f->k, &err);
	for (size_t i = 0; !rc && i < f->k.n && !cli_interrupted(); i++) {
		char name[NAME_DIR_MAX];
		if (f->fates[i] != FATE_GOES)
			continue;
		name_dir(f->k.items[i].id, name);
		moved[*n].item = i;
		rc = trash_move(f->cli->repo, f->job, name, moved[*n].trash, &err);
		rc = rc == -ENOENT ? 0 : rc;
		f->fates[i] = rc ? FATE_FAILED : FATE_REMOVED;
		f->removed += !rc;
		*n += !rc;
	}
	return rc < 0 ? cli_fail(f->cli, exit_code_of(rc), "%s", err.text) : EXIT_OK;
}

static int sweep_all(struct forgetting *f, const struct moved *moved, size_t n)
{
	int code = EXIT_OK;
	f->freed = 0;
	for (size_t i = 0; i < n && !cli_interrupted(); i++) {
		struct err err = {0};
		if (trash_sweep(f->cli->repo, f->job, moved[i].trash, &f->freed, &err) < 0)
			code = cli_fail(f->cli, EXIT_PARTIAL, "%s (ckpt gc tries again)", err.text);
	}
	return code;
}

/* The lock covers the moves; what is in the trash is nobody's checkpoint any more. */
static int remove_all(struct forgetting *f, int *lock)
{
	AUTO_FREE struct moved *moved = calloc(f->goes + 1, sizeof(*moved));
	size_t n = 0;
	if (!moved)
		return cli_fail(f->cli, EXIT_FAILED, "out of memory");
	cli_catch_interrupt();
	int code = move_all(f, moved, &n);
	removal_unlock(f->cli, *lock);
	*lock = -1;
	int swept = sweep_all(f, moved, n);
	if (cli_interrupted())
		return cli_fail(f->cli, EXIT_CANCELLED,
				"interrupted: %zu of %zu checkpoints are removed, ckpt gc "
				"deletes what is left of them",
				f->removed, f->goes);
	if (code)
		return f->removed ? EXIT_PARTIAL : code;
	return swept;
}

/* ---- report */

static const char *fate_word(enum fate fate)
{
	static const char *const words[] = {"stays", "goes", "removed", "failed"};
	return words[fate];
}

static void why(const struct forgetting *f, size_t i, char dst[RETENTION_TEXT_MAX])
{
	retention_text(f->k.items[i].keep, dst);
	if (f->fates[i] != FATE_STAYS)
		snprintf(dst, RETENTION_TEXT_MAX, "%s", f->named ? "named" : "kept by no rule");
}

static void print(const struct forgetting *f)
{
	static const struct column columns[] = {{"CHECKPOINT", ALIGN_LEFT},
						{"AGE", ALIGN_LEFT},
						{"", ALIGN_LEFT},
						{"FREES", ALIGN_RIGHT},
						{"WHY", ALIGN_LEFT}};
	char name[NAME_DIR_MAX], age[32], bytes[16], text[RETENTION_TEXT_MAX];
	struct table *t = table_new(columns, sizeof(columns) / sizeof(columns[0]));
	size_t rows = 0;
	for (size_t i = 0; i < f->k.n; i++) {
		bool stays = f->fates[i] == FATE_STAYS;
		if (f->named && stays)
			continue;
		name_dir(f->k.items[i].id, name);
		why(f, i, text);
		table_cell(t, TONE_PLAIN, "%s", name);
		table_cell(t, TONE_PLAIN, "%s", text_age(age, sizeof(age), f->k.items[i].committed_ns));
		table_cell(t, stays ? TONE_GOOD : TONE_WARN, "%s", fate_word(f->fates[i]));
		table_cell(t, TONE_PLAIN, "%s", stays ? "-" : bytes_human(bytes, sizeof(bytes), f->frees[i]));
		table_cell(t, TONE_DIM, "%s", text);
		rows++;
	}
	if (rows)
		table_print(t);
	else
		table_free(t);
	bool dry = cli_flag(f->cli, "dry-run");
	out(TONE_PLAIN, "%zu of %zu checkpoints %s, %s on storage\n", dry ? f->goes : f->removed, f->k.n,
	    dry ? "would go" : "removed", bytes_human(bytes, sizeof(bytes), f->freed));
}

static json_t *reasons_json(unsigned keep)
{
	char word[RETENTION_TEXT_MAX];
	json_t *list = json_array();
	for (unsigned bit = 1; bit <= RETENTION_BEGAN; bit <<= 1) {
		retention_text(keep & bit, word);
		if (*word)
			json_array_append_new(list, json_string(word));
	}
	return list;
}

static void emit(const struct forgetting *f)
{
	json_t *doc = json_document(f->cli), *list = json_array();
	json_object_set_new(doc, "repository", json_text(f->cli->repo->path));
	json_object_set_new(doc, "job", *f->job ? json_text(f->job) : json_null());
	json_object_set_new(doc, "dry_run", json_boolean(cli_flag(f->cli, "dry-run")));
	for (size_t i = 0; i < f->k.n; i++) {
		const struct retention_item *item = &f->k.items[i];
		char name[NAME_DIR_MAX];
		name_dir(item->id, name);
		json_array_append_new(list, json_pack("{s:I, s:i, s:s, s:I, s:s, s:o, s:I}", "step",
						      (json_int_t)item->id.step, "epoch", (int)item->id.epoch, "name",
						      name, "committed_ns", (json_int_t)item->committed_ns, "state",
						      fate_word(f->fates[i]), "why", reasons_json(item->keep), "frees",
						      (json_int_t)f->frees[i]));
	}
	json_object_set_new(doc, "checkpoints", list);
	json_object_set_new(doc, "goes", json_integer((json_int_t)f->goes));
	json_object_set_new(doc, "removed", json_integer((json_int_t)f->removed));
	json_object_set_new(doc, "freed", json_integer((json_int_t)f->freed));
	json_emit(doc);
}

static int work(struct forgetting *f, int *lock)
{
	int code = find_job(f);
	if (!code && *f->job)
		code = plan(f);
	if (code)
		return code;
	if (!cli_flag(f->cli, "dry-run") && f->goes)
		code = remove_all(f, lock);
	if (f->cli->json)
		emit(f);
	else
		print(f);
	return code;
}

static int run(struct cli *cli)
{
	struct forgetting f = {.cli = cli};
	int lock = -1;
	int code = read_policy(&f);
	if (!code)
		code = cli_flag(cli, "dry-run") ? cli_repo(cli) : removal_lock(cli, &lock);
	if (!code)
		code = work(&f, &lock);
	removal_unlock(cli, lock);
	keeping_free(&f.k);
	free(f.fates);
	free(f.frees);
	return code;
}

static const struct option_spec options[] = {
	{"keep-last", OPTION_NUMBER, "N", "keep the newest N"},
	{"keep-every", OPTION_NUMBER, "STEPS", "keep those whose step is a multiple of this"},
	{"keep-within", OPTION_TEXT, "TIME",
	 "keep those that were committed within this time before the newest: 90m, 36h, 7d"},
	{"keep-hourly", OPTION_NUMBER, "N", "keep the newest of each of the last N hours that have one"},
	{"keep-daily", OPTION_NUMBER, "N", "keep the newest of each of the last N days that have one"},
	{"earlier-runs", OPTION_FLAG, NULL,
	 "let the rules remove what was saved before a run that began without restoring it"},
	{"force", OPTION_FLAG, NULL, "remove named ones although they are protected"},
	{"dry-run", OPTION_FLAG, NULL, "show what would go and what stays, and why; remove nothing"},
	{NULL},
};

const struct command command_forget = {
	.name = "forget",
	.summary = "remove checkpoints that no rule keeps, or those that you name",
	.detail = "A checkpoint stays if any rule keeps it. Whatever the rules say, these stay: pinned and tagged\n"
		  "ones, the newest, the newest that was read back and matched, and the newest healthy one.\n"
		  "If a run began without restoring what was there, the newest ones before it stay, too. They go if\n"
		  "you name them, or with --earlier-runs. Hours and days are those of UTC.",
	.args = "[STEP|latest]...",
	.max_args = -1,
	.options = options,
	.run = run,
};
