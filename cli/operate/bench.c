/* ckpt bench: what checkpoints cost on this machine and in this store, measured in seconds and without a daemon. */
#include "operate/bench.h"
#include "frame/amount.h"
#include "frame/target.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/mapping.h"

#include <string.h>
#include <sys/sysinfo.h>

enum { SIZE_DEFAULT = 1 << 30, SIZE_MIN = 1 << 20, RANKS_MAX = 4096, SLOTS = 3 };

struct order {
	uint64_t size, state, ranks, free_bytes;
};

static const struct {
	const char *name, *what;
} rates[BENCH_RATES] = {
	[BENCH_WRITE] = {"write", "write, allocation and fsync included"},
	[BENCH_READ] = {"read", "read"},
	[BENCH_COPY_ONE] = {"copy_one", "copy, one thread"},
	[BENCH_COPY_ALL] = {"copy_all", "copy, a thread per processor"},
	[BENCH_DIGEST_ONE] = {"digest_one", "digest, one thread"},
	[BENCH_DIGEST_ALL] = {"digest_all", "digest, a thread per processor"},
	[BENCH_TOUCH_HUGE] = {"touch_huge", "first touch, huge pages"},
	[BENCH_TOUCH_ORDINARY] = {"touch_ordinary", "first touch, ordinary pages"},
};

static const struct {
	const char *name, *what;
} latencies[BENCH_LATENCIES] = {
	[BENCH_FSYNC] = {"fsync", "fsync of a small file"},
	[BENCH_LINK] = {"link", "hard link"},
	[BENCH_FSYNC_DIR] = {"fsync_dir", "fsync of a directory"},
};

/* ---- what is wanted -------------------------------------------------------------------------------------------------- */

static int read_order(const struct cli *cli, struct order *o)
{
	static const struct setting size = {.type = SETTING_BYTES, .min = SIZE_MIN, .max = 1ull << 40};
	static const struct setting state = {.type = SETTING_BYTES, .min = 1, .max = 1ull << 50};
	int code = amount_read(cli, "size", &size, 0, &o->size);
	if (!code)
		code = amount_read(cli, "state", &state, 0, &o->state);
	o->ranks = cli_number(cli, "ranks", 1);
	if (!code && (!o->ranks || o->ranks > RANKS_MAX))
		code = cli_fail(cli, EXIT_USAGE, "--ranks %lu: 1 to %d", (unsigned long)o->ranks, RANKS_MAX);
	return code;
}

/* At most half of what is free; without --size at most a quarter, so that nobody's checkpoint fails for it. */
static int choose_size(struct cli *cli, struct order *o)
{
	uint64_t total;
	char want[16], have[16];
	int rc = disk_space(cli->repo->disk, cli->repo->root, &o->free_bytes, &total);
	if (rc < 0)
		return cli_fail(cli, EXIT_FAILED, "cannot ask %s for its free space: %s", cli->repo->path,
				err_name(rc));
	if (!o->size)
		o->size = max_u64(min_u64(SIZE_DEFAULT, o->free_bytes / 4), SIZE_MIN);
	o->size = align_up(o->size, DISK_ALIGN);
	if (o->size <= o->free_bytes / 2)
		return EXIT_OK;
	return cli_fail(cli, EXIT_FAILED,
			"%s are to be written, but only %s are free in %s, of which at most half are taken: %s",
			bytes_human(want, sizeof(want), o->size), bytes_human(have, sizeof(have), o->free_bytes),
			cli->repo->path,
			o->size > SIZE_MIN ? "give a smaller --size" : "make room (ckpt forget, ckpt gc)");
}

/* ---- the report ------------------------------------------------------------------------------------------------------ */

static void print_figures(const struct bench_figures *f)
{
	static const struct column columns[] = {{"FIGURE", ALIGN_LEFT}, {"", ALIGN_RIGHT}, {"WORST", ALIGN_RIGHT}};
	struct table *t = table_new(columns, 3);
	char text[32], worst[32];
	for (unsigned i = 0; i < BENCH_RATES; i++) {
		table_cell(t, TONE_PLAIN, "%s", rates[i].what);
		if (f->rates[i] > 0)
			table_cell(t, TONE_PLAIN, "%s/s", bytes_human(text, sizeof(text), (uint64_t)f->rates[i]));
		else
			table_cell(t, TONE_DIM, "not there");
		table_cell(t, TONE_PLAIN, "%s", "");
	}
	for (unsigned i = 0; i < BENCH_LATENCIES; i++) {
		const struct bench_times *l = &f->latencies[i];
		table_cell(t, TONE_PLAIN, "%s", latencies[i].what);
		table_cell(t, l->median_ns ? TONE_PLAIN : TONE_DIM, "%s",
			   l->median_ns ? text_duration(text, sizeof(text), l->median_ns) : "not there");
		table_cell(t, TONE_PLAIN, "%s", l->median_ns ? text_duration(worst, sizeof(worst), l->worst_ns) : "");
	}
	table_print(t);
}

static uint64_t memory_bytes(void)
{
	struct sysinfo info;
	return sysinfo(&info) ? 0 : (uint64_t)info.totalram * info.mem_unit;
}

static void print_estimate(const struct order *o, const struct bench_estimate *e)
{
	char state[16], arenas[16], memory[16], times[4][32];
	const double seconds[4] = {e->captured, e->durable, e->verified, e->restored};
	for (int i = 0; i < 4; i++)
		text_duration(times[i], sizeof(times[i]), (uint64_t)(seconds[i] * (double)CLOCK_NS_PER_S));
	out(TONE_HEAD, "\nA state of %s on this node, %lu rank%s, with nothing else to do:\n",
	    bytes_human(state, sizeof(state), o->state), (unsigned long)o->ranks, o->ranks == 1 ? "" : "s");
	out(TONE_PLAIN,
	    "  captured  %-9s copied and digested by the ranks; what they change meanwhile waits for that\n", times[0]);
	out(TONE_PLAIN,
	    "  durable   %-9s from the begin of the save; saves to storage that come faster do not all get there\n",
	    times[1]);
	out(TONE_PLAIN, "  verified  %-9s read back as well\n", times[2]);
	out(TONE_PLAIN, "  restored  %-9s from storage, into a new arena\n", times[3]);
	out(SLOTS * o->state > memory_bytes() ? TONE_WARN : TONE_PLAIN, "  memory    %-9s for its arenas, of %s\n",
	    bytes_human(arenas, sizeof(arenas), SLOTS * o->state), bytes_human(memory, sizeof(memory), memory_bytes()));
	out(TONE_PLAIN, "  room      %-9lu such checkpoints fit into what is free\n",
	    (unsigned long)(o->free_bytes / o->state));
}

static void print(const struct cli *cli, const struct order *o, const struct bench_figures *f,
		  const struct bench_estimate *e)
{
	char moved[16];
	print_figures(f);
	out(TONE_PLAIN, "\nA file of %s in %s: %s, %s; %u processor%s\n", bytes_human(moved, sizeof(moved), f->moved),
	    cli->repo->path, f->direct ? "O_DIRECT" : "through the page cache (no O_DIRECT here), which flatters",
	    disk_engine(cli->repo->disk), f->cores, f->cores == 1 ? "" : "s");
	if (o->state)
		print_estimate(o, e);
}

static void emit(const struct cli *cli, const struct order *o, const struct bench_figures *f,
		 const struct bench_estimate *e)
{
	json_t *doc = json_document(cli), *speeds = json_object(), *times = json_object();
	for (unsigned i = 0; i < BENCH_RATES; i++)
		json_object_set_new(speeds, rates[i].name,
				    f->rates[i] > 0 ? json_integer((json_int_t)f->rates[i]) : json_null());
	for (unsigned i = 0; i < BENCH_LATENCIES; i++) {
		const struct bench_times *l = &f->latencies[i];
		json_object_set_new(times, latencies[i].name,
				    l->median_ns ? json_pack("{s:I, s:I}", "median_ns", (json_int_t)l->median_ns,
							     "worst_ns", (json_int_t)l->worst_ns)
						 : json_null());
	}
	json_object_set_new(doc, "repository", json_text(cli->repo->path));
	json_object_set_new(doc, "engine", json_string(disk_engine(cli->repo->disk)));
	json_object_set_new(doc, "direct", json_boolean(f->direct));
	json_object_set_new(doc, "bytes", json_integer((json_int_t)f->moved));
	json_object_set_new(doc, "processors", json_integer(f->cores));
	json_object_set_new(doc, "free_bytes", json_integer((json_int_t)o->free_bytes));
	json_object_set_new(doc, "memory_bytes", json_integer((json_int_t)memory_bytes()));
	json_object_set_new(doc, "rates", speeds);
	json_object_set_new(doc, "latencies", times);
	json_object_set_new(doc, "estimate",
			    o->state ? json_pack("{s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "state", (json_int_t)o->state,
						 "ranks", (json_int_t)o->ranks, "arena_bytes",
						 (json_int_t)(SLOTS * o->state), "captured_s", e->captured, "durable_s",
						 e->durable, "verified_s", e->verified, "restored_s", e->restored)
				     : json_null());
	json_emit(doc);
}

/* ---- the command ------------------------------------------------------------------------------------------------------ */

static int measure(struct cli *cli, const struct order *o, struct bench_figures *f)
{
	struct bench_memory memory = {0};
	struct progress progress;
	struct err err = {0};
	cli_catch_interrupt();
	int rc = bench_memory(&memory, f, &err);
	progress_start(&progress, cli, "written");
	if (!rc)
		rc = bench_store(cli->repo->disk, cli->repo->root, o->size, &memory, &progress, f, &err);
	progress_end(&progress);
	bench_memory_free(&memory);
	if (rc == -ECANCELED)
		return cli_fail(cli, EXIT_CANCELLED, "%s", err.text);
	return rc < 0 ? cli_fail(cli, EXIT_FAILED, "%s: %s", cli->repo->path, err.text) : EXIT_OK;
}

static int run(struct cli *cli)
{
	struct order order = {0};
	struct bench_figures figures = {0};
	struct bench_estimate estimate = {0};
	int code = read_order(cli, &order);
	if (!code)
		code = cli_repo(cli);
	if (!code)
		code = choose_size(cli, &order);
	if (!code)
		code = measure(cli, &order, &figures);
	if (code)
		return code;
	bench_estimate(&figures, order.state, (unsigned)order.ranks, &estimate);
	if (cli->json)
		emit(cli, &order, &figures, &estimate);
	else
		print(cli, &order, &figures, &estimate);
	return EXIT_OK;
}

static const struct option_spec options[] = {
	{"repo", OPTION_TEXT, "DIR", "the repository in which to measure (else CKPT_REPO)"},
	{"size", OPTION_TEXT, "SIZE",
	 "of the file that is written and read (default 1G, or a quarter of what is free)"},
	{"state", OPTION_TEXT, "SIZE", "estimate checkpoints of a state of this size per node, such as 40G"},
	{"ranks", OPTION_NUMBER, "N", "that hold this state on the node (also -n; default 1)"},
	{"progress", OPTION_FLAG, NULL, "progress lines on stderr although it is no terminal"},
	{NULL},
};

const struct command command_bench = {
	.name = "bench",
	.summary = "measure what checkpoints cost on this machine and in this store",
	.detail =
		"Writes a file as ckptd does and reads it as a restore does, times small files, and measures copies,\n"
		"digests and the first touch of memory. No daemon is needed; one that is at work is slowed down, and\n"
		"slows the measurement. Takes seconds, at most about a minute. Its files are removed again; those of "
		"a\n"
		"killed run are litter, which ckpt gc and ckptd collect.",
	.args = "",
	.no_repo = true,
	.options = options,
	.run = run,
};
