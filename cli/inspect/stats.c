/* ckpt stats: a job's checkpoints in numbers. */
#include "inspect/stats.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int stats_count(struct repo *repo, const char *job, const char *name, struct usage_seen *seen, struct usage *u,
		struct err *err)
{
	int job_dir = disk_open_at(repo->disk, repo->root, job, DISK_DIR);
	if (job_dir < 0)
		return err_set(err, job_dir, "cannot open %s: %s", job, err_name(job_dir));
	int dir = disk_open_at(repo->disk, job_dir, name, DISK_DIR), rc;
	disk_close_file(repo->disk, job_dir);
	if (dir == -ENOENT)
		return 0; /* removed since it was listed */
	if (dir < 0)
		return err_set(err, dir, "cannot open %s/%s: %s", job, name, err_name(dir));
	rc = usage_add(seen, repo, dir, u, err);
	disk_close_file(repo->disk, dir);
	return rc;
}

json_t *stats_usage_json(const struct usage *u)
{
	return json_pack("{s:I, s:I, s:I, s:I}", "files", (json_int_t)u->files, "apparent", (json_int_t)u->apparent,
			 "real", (json_int_t)u->real, "shared_files", (json_int_t)u->shared);
}

char *stats_usage_text(const struct usage *u, char *dst, size_t size)
{
	char apparent[16], real[16];
	int n = snprintf(dst, size, "%" PRIu64 " files of %s; %s on storage", u->files,
			 bytes_human(apparent, sizeof(apparent), u->apparent),
			 bytes_human(real, sizeof(real), u->real));
	if (u->shared && n > 0 && (size_t)n < size)
		snprintf(dst + n, size - (size_t)n, ", %" PRIu64 " of them shared with other checkpoints", u->shared);
	return dst;
}

/* ---- a job */

/* Smallest, middle and largest of differences between neighbours. */
struct spread {
	bool known;
	uint64_t min, median, max;
};

struct report {
	const char *job;
	uint64_t committed, partial, abandoned;
	struct step_id first, last;
	uint64_t first_ns, last_ns;
	struct spread steps, times; /* between commits of the same epoch; between any two commits */
	struct spread sizes;        /* bytes that each commit has added to storage */
	struct usage usage, waste;  /* of the committed, and of what is not or no longer a checkpoint */
	uint64_t free_bytes, total_bytes;
};

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static struct spread spread_of(uint64_t *values, size_t n)
{
	if (!n)
		return (struct spread){0};
	qsort(values, n, sizeof(*values), by_value);
	return (struct spread){true, values[0], values[n / 2], values[n - 1]};
}

struct walk {
	struct repo *repo;
	struct usage_seen *seen;
	struct report *report;
	struct err *err;
};

static int add_abandoned(void *arg, const char *name)
{
	struct walk *w = arg;
	bool written = !strncmp(name, NAME_WORK_PREFIX, strlen(NAME_WORK_PREFIX));
	if (!written && strncmp(name, REPO_ABANDONED, strlen(REPO_ABANDONED)) != 0)
		return 0;
	w->report->partial += written;
	w->report->abandoned += !written;
	return stats_count(w->repo, w->report->job, name, w->seen, &w->report->waste, w->err);
}

static int count_abandoned(struct walk *w)
{
	int dir = disk_open_at(w->repo->disk, w->repo->root, w->report->job, DISK_DIR);
	if (dir < 0)
		return dir == -ENOENT ? 0 : err_set(w->err, dir, "cannot open %s: %s", w->report->job, err_name(dir));
	int rc = disk_list(w->repo->disk, dir, add_abandoned, w);
	disk_close_file(w->repo->disk, dir);
	return rc;
}

/* Oldest first, so that what is shared counts for the one that brought it. added: bytes of each committed one. */
static int count_checkpoints(struct walk *w, const struct checkpoint_ref *refs, size_t n, uint64_t *added)
{
	int rc = 0;
	for (size_t i = 0; i < n && !rc; i++) {
		char name[NAME_DIR_MAX];
		bool committed = refs[i].state == CHECKPOINT_COMMITTED;
		struct usage *u = committed ? &w->report->usage : &w->report->waste;
		uint64_t before = u->real;
		name_dir(refs[i].id, name);
		rc = stats_count(w->repo, w->report->job, name, w->seen, u, w->err);
		if (committed)
			added[w->report->committed++] = u->real - before;
		else
			w->report->partial++;
	}
	return rc;
}

static void measure_cadence(const struct checkpoint_ref *refs, size_t n, struct report *r, uint64_t *steps,
			    uint64_t *times)
{
	size_t nsteps = 0, ntimes = 0;
	const struct checkpoint_ref *last = NULL;
	for (size_t i = 0; i < n; i++) {
		if (refs[i].state != CHECKPOINT_COMMITTED)
			continue;
		if (last && last->id.epoch == refs[i].id.epoch)
			steps[nsteps++] = refs[i].id.step - last->id.step;
		if (last)
			times[ntimes++] = refs[i].committed_ns > last->committed_ns
						  ? refs[i].committed_ns - last->committed_ns
						  : 0;
		if (!last) {
			r->first = refs[i].id;
			r->first_ns = refs[i].committed_ns;
		}
		last = &refs[i];
	}
	if (last) {
		r->last = last->id;
		r->last_ns = last->committed_ns;
	}
	r->steps = spread_of(steps, nsteps);
	r->times = spread_of(times, ntimes);
}

static int measure(struct walk *w, const struct checkpoint_ref *refs, size_t n)
{
	AUTO_FREE uint64_t *values = calloc(3 * n + 1, sizeof(*values));
	if (!values)
		return err_set(w->err, -ENOMEM, "out of memory");
	int rc = count_checkpoints(w, refs, n, values);
	if (!rc)
		rc = count_abandoned(w);
	if (rc < 0)
		return rc;
	w->report->sizes = spread_of(values, w->report->committed);
	measure_cadence(refs, n, w->report, values + n, values + 2 * n);
	return disk_space(w->repo->disk, w->repo->root, &w->report->free_bytes, &w->report->total_bytes);
}

/* Bytes per day, as they came between the first and the last commit; 0: not known. */
static uint64_t growth(const struct report *r)
{
	uint64_t ns = r->last_ns > r->first_ns ? r->last_ns - r->first_ns : 0;
	if (r->committed < 2 || ns < CLOCK_NS_PER_S)
		return 0;
	double added = (double)r->usage.real * (double)(r->committed - 1) / (double)r->committed;
	return (uint64_t)(added * 86400 * CLOCK_NS_PER_S / (double)ns);
}

/* ---- text */

static void line(const char *what, const char *value)
{
	out(TONE_DIM, "%-12s", what);
	out(TONE_PLAIN, "%s\n", value);
}

static void print_space(const struct report *r)
{
	char text[256], a[16], b[16];
	line("space", stats_usage_text(&r->usage, text, sizeof(text)));
	if (r->waste.files) {
		snprintf(text, sizeof(text), "%s in directories that are no checkpoints",
			 bytes_human(a, sizeof(a), r->waste.real));
		line("", text);
	}
	if (r->sizes.known) {
		snprintf(text, sizeof(text), "%s per checkpoint (median)", bytes_human(a, sizeof(a), r->sizes.median));
		line("growth", text);
	}
	if (growth(r)) {
		snprintf(text, sizeof(text), "%s per day", bytes_human(a, sizeof(a), growth(r)));
		line("", text);
	}
	snprintf(text, sizeof(text), "%s of %s", bytes_human(a, sizeof(a), r->free_bytes),
		 bytes_human(b, sizeof(b), r->total_bytes));
	line("free", text);
}

static void print(const struct cli *cli, const struct report *r)
{
	char text[256], a[32], b[32], c[32];
	line("job", r->job);
	line("repository", cli->repo->path);
	snprintf(text, sizeof(text), "%" PRIu64 " committed, %" PRIu64 " partial, %" PRIu64 " abandoned", r->committed,
		 r->partial, r->abandoned);
	line("checkpoints", text);
	if (r->committed) {
		snprintf(text, sizeof(text), "%" PRIu64 ".e%04u (%s) to %" PRIu64 ".e%04u (%s)", r->first.step,
			 r->first.epoch, text_age(a, sizeof(a), r->first_ns), r->last.step, r->last.epoch,
			 text_age(b, sizeof(b), r->last_ns));
		line("from", text);
	}
	if (r->steps.known) {
		snprintf(text, sizeof(text), "%" PRIu64 " to %" PRIu64 " steps, median %" PRIu64, r->steps.min,
			 r->steps.max, r->steps.median);
		line("cadence", text);
	}
	if (r->times.known) {
		snprintf(text, sizeof(text), "%s to %s, median %s", text_duration(a, sizeof(a), r->times.min),
			 text_duration(b, sizeof(b), r->times.max), text_duration(c, sizeof(c), r->times.median));
		line(r->steps.known ? "" : "cadence", text);
	}
	print_space(r);
}

/* ---- JSON */

static json_t *spread_json(const struct spread *s)
{
	if (!s->known)
		return json_null();
	return json_pack("{s:I, s:I, s:I}", "min", (json_int_t)s->min, "median", (json_int_t)s->median, "max",
			 (json_int_t)s->max);
}

static json_t *end_json(const struct report *r, struct step_id id, uint64_t ns)
{
	if (!r->committed)
		return json_null();
	return json_pack("{s:I, s:I, s:I}", "step", (json_int_t)id.step, "epoch", (json_int_t)id.epoch, "committed_ns",
			 (json_int_t)ns);
}

static void emit(const struct cli *cli, const struct report *r)
{
	json_t *doc = json_document(cli);
	json_object_set_new(doc, "repository", json_text(cli->repo->path));
	json_object_set_new(doc, "job", json_text(r->job));
	json_object_set_new(doc, "committed", json_integer((json_int_t)r->committed));
	json_object_set_new(doc, "partial", json_integer((json_int_t)r->partial));
	json_object_set_new(doc, "abandoned", json_integer((json_int_t)r->abandoned));
	json_object_set_new(doc, "first", end_json(r, r->first, r->first_ns));
	json_object_set_new(doc, "last", end_json(r, r->last, r->last_ns));
	json_object_set_new(doc, "steps_between", spread_json(&r->steps));
	json_object_set_new(doc, "interval_ns", spread_json(&r->times));
	json_object_set_new(doc, "bytes_added", spread_json(&r->sizes));
	json_object_set_new(doc, "bytes_per_day", growth(r) ? json_integer((json_int_t)growth(r)) : json_null());
	json_object_set_new(doc, "usage", stats_usage_json(&r->usage));
	json_object_set_new(doc, "waste", stats_usage_json(&r->waste));
	json_object_set_new(doc, "free_bytes", json_integer((json_int_t)r->free_bytes));
	json_object_set_new(doc, "total_bytes", json_integer((json_int_t)r->total_bytes));
	json_emit(doc);
}

/* ---- */

static int stats_job(struct cli *cli)
{
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	struct usage_seen seen = {0};
	struct err err = {0};
	struct report r = {0};
	size_t n;
	int code = cli_scan_job(cli, &refs, &n);
	if (!code)
		code = cli_job(cli, &r.job);
	if (code)
		return code;
	if (!r.job && !n)
		return cli_say_none(cli);
	r.job = r.job ? r.job : refs[0].job;
	struct walk w = {cli->repo, &seen, &r, &err};
	int rc = measure(&w, refs, n);
	usage_free(&seen);
	if (rc < 0)
		return cli_fail(cli, exit_code_of(rc), "%s", err.text[0] ? err.text : err_name(rc));
	if (cli->json)
		emit(cli, &r);
	else
		print(cli, &r);
	return EXIT_OK;
}

static int run(struct cli *cli)
{
	return cli->nargs ? stats_one(cli) : stats_job(cli);
}

const struct command command_stats = {
	.name = "stats",
	.summary = "count what a checkpoint, or all of a job, holds and takes",
	.detail = "With a checkpoint: its bytes, tensors, pieces and files by group, type and rank. Without: number,\n"
		  "cadence, growth and space of the job's checkpoints. A file that several checkpoints share counts\n"
		  "once in the space on storage.",
	.args = "[STEP|latest]",
	.max_args = 1,
	.run = run,
};
