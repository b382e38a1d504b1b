/* drive: one rank of a job whose state is a function of the step, for tests that kill things around it.
 *
 *	drive [--steps N] [--until-file PATH] [--storage N] [--pause MS] [--elements N] [--wait LEVEL] [--log PATH] [--deadline MS]
 *	      [--mutate STEP] [--skip-fence STEP] [--late STEP] [--late-fence STEP] [--late-restore]
 *	      [--join MS] [--strict] [--restore-only] [--healthy] [--pace PATH] [--mark N] [--quit]
 *
 * It joins, restores the newest checkpoint and checks every byte of it, and then trains: at each step the state becomes that of the
 * step and is saved, every N-th step to storage, else to memory. Levels that were reached are acknowledged in the log, a line each,
 * fsynced: "LEVEL STEP EPOCH"; so are "restored STEP EPOCH SOURCE", "marked STEP EPOCH" (--mark: each N-th step is called
 * healthy once it is captured; --healthy restores the newest such), "failed STEP RC SENTENCE", "busy STEP" and "slow STEP MS" (a call of
 * the save path that took longer than --deadline). With --pace the ranks of a job go in step, as a collective would make them, and agree on
 * the last one; a missing one is waited for a moment. When the epoch moves on it joins again; with --quit it ends, as workers of torchrun do. Rank, world, job and socket come from the
 * environment, as for any rank. Exit: 0 all steps done; 1 the library refused something it must not refuse; 2 usage; 3 a restored byte
 * is wrong; 4 a call took longer than the deadline; 5 the epoch has moved on (--quit). */
#include "base/clock.h"
#include "ckpt.h"
#include "pace.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_REFUSED = 1, EXIT_USAGE = 2, EXIT_WRONG = 3, EXIT_SLOW = 4, EXIT_STALE = 5, HELD_MAX = 8, JOIN_MS = 30000 };

struct drive {
	uint64_t steps, storage, elements, deadline_ms, pause_ms, mark;
	uint64_t mutate, skip_fence, late, late_fence; /* UINT64_MAX: never */
	ckpt_level wait;
	int log, strict;
	bool restore_only, late_restore, healthy, quit;
	int join_ms;
	const char *until;
	struct pace *pace; /* NULL: every rank at its own pace */

	ckpt *s;
	uint64_t step;       /* of the state; 0: as at the start */
	uint64_t *own, *all; /* this rank's rows of a shared tensor, and a replicated one */
	uint64_t counter, rng[4];
	ckpt_snapshot *held[HELD_MAX]; /* whose levels are still awaited, oldest first */
	int shown[HELD_MAX];
	unsigned nheld;
};

/* Three bytes are zero, so that packing pays. */
static uint64_t value(uint64_t step, uint64_t tensor, uint64_t element)
{
	uint64_t x = step * 0x9e3779b97f4a7c15ull + tensor * 0xc2b2ae3d27d4eb4full + element;
	x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9ull;
	return (x ^ x >> 29) >> 24;
}

__attribute__((format(printf, 2, 3))) static void note(struct drive *d, const char *fmt, ...)
{
	char line[700];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	n = n < (int)sizeof(line) - 2 ? n : (int)sizeof(line) - 2;
	line[n++] = '\n';
	if (write(d->log, line, (size_t)n) != n || (d->log != STDOUT_FILENO && fsync(d->log))) {
		perror("drive: log");
		_exit(EXIT_REFUSED);
	}
}

static void refuse(struct drive *d, const char *what, int rc)
{
	note(d, "refused %s %s %s", what, strerrorname_np(-rc), d->s ? ckpt_error(d->s) : "");
	exit(EXIT_REFUSED);
}

static void pause_ms(uint64_t ms)
{
	if (ms)
		usleep((useconds_t)(ms * 1000));
}

/* ---- state ------------------------------------------------------------------------------------------------------- */

static void fill(struct drive *d, uint64_t step)
{
	uint64_t rank = (uint64_t)ckpt_rank(d->s);
	for (uint64_t i = 0; i < d->elements; i++) {
		d->own[i] = value(step, 1, rank * d->elements + i);
		d->all[i] = value(step, 2, i);
	}
	d->counter = step;
	for (unsigned i = 0; i < 4; i++)
		d->rng[i] = value(step, 3 + rank, i);
	d->step = step;
}

static bool same(struct drive *d, uint64_t step)
{
	uint64_t rank = (uint64_t)ckpt_rank(d->s), bad = 0;
	for (uint64_t i = 0; i < d->elements; i++)
		bad += (d->own[i] != value(step, 1, rank * d->elements + i)) + (d->all[i] != value(step, 2, i));
	for (unsigned i = 0; i < 4; i++)
		bad += d->rng[i] != value(step, 3 + rank, i);
	return !bad && d->counter == step;
}

static void enroll(struct drive *d, const char *name, uint64_t *data, uint64_t rows, uint64_t first,
		   const char *replica)
{
	uint64_t shape[2] = {rows, d->elements}, offset[2] = {first, 0}, extent[2] = {replica ? rows : 1, d->elements};
	ckpt_piece piece = {.data = data, .offset = offset, .extent = extent};
	ckpt_tensor t = CKPT_INIT(ckpt_tensor);
	t.name = name;
	t.dtype = CKPT_U64;
	t.ndim = 2;
	t.shape = shape;
	t.pieces = &piece;
	t.npieces = 1;
	t.group = replica ? "params" : "optimizer";
	t.replica = replica;
	t.device = CKPT_HOST;
	int rc = ckpt_register_tensor(d->s, &t);
	if (rc)
		refuse(d, "register", rc);
}

static void enroll_all(struct drive *d)
{
	d->own = calloc(d->elements, sizeof(*d->own));
	d->all = calloc(d->elements, sizeof(*d->all));
	if (!d->own || !d->all)
		refuse(d, "memory", -ENOMEM);
	enroll(d, "own", d->own, (uint64_t)ckpt_world(d->s), (uint64_t)ckpt_rank(d->s), NULL);
	enroll(d, "all", d->all, 1, 0, "dp");
	int rc = ckpt_register_blob(d->s, "counter", CKPT_SCOPE_JOB, &d->counter, sizeof(d->counter));
	if (!rc)
		rc = ckpt_register_blob(d->s, "rng", CKPT_SCOPE_RANK, d->rng, sizeof(d->rng));
	if (rc)
		refuse(d, "register", rc);
}

/* ---- following what was saved ------------------------------------------------------------------------------------ */

static void mark(struct drive *d, uint64_t step)
{
	if (d->mark && step % d->mark == 0 &&
	    !ckpt_mark(d->s, step, 0, CKPT_HEALTHY, "as planned", (int)d->deadline_ms))
		note(d, "marked %lu %u", (unsigned long)step, ckpt_epoch(d->s));
}

static void acknowledge(struct drive *d, unsigned i, int level)
{
	static const char *const names[] = {"pending", "captured", "replicated", "durable", "verified"};
	for (int l = d->shown[i] + 1; l <= level; l++)
		if (l != CKPT_REPLICATED)
			note(d, "%s %lu %u", names[l], (unsigned long)ckpt_snapshot_step(d->held[i]), ckpt_epoch(d->s));
	if (d->shown[i] < CKPT_CAPTURED && level >= CKPT_CAPTURED)
		mark(d, ckpt_snapshot_step(d->held[i]));
	d->shown[i] = level;
}

static void drop(struct drive *d, unsigned i)
{
	ckpt_snapshot_free(d->held[i]);
	d->nheld--;
	memmove(&d->held[i], &d->held[i + 1], (d->nheld - i) * sizeof(d->held[0]));
	memmove(&d->shown[i], &d->shown[i + 1], (d->nheld - i) * sizeof(d->shown[0]));
}

static bool to_storage(const struct drive *d, uint64_t step)
{
	return d->storage && step % d->storage == 0;
}

/* The wait is for the sentence, which comes a moment later than the error. */
static void failed(struct drive *d, unsigned i, int rc, int last)
{
	(void)ckpt_wait(d->held[i], last, 0);
	note(d, "failed %lu %s %s", (unsigned long)ckpt_snapshot_step(d->held[i]), strerrorname_np(-rc),
	     ckpt_error(d->s));
}

/* What goes to memory only is let go once captured, lest it crowd out a save that a slow disk still writes: nobody would hear
 * that it became durable. */
static void look(struct drive *d)
{
	for (unsigned i = d->nheld; i-- > 0;) {
		int level = ckpt_poll(d->held[i]);
		if (level > d->shown[i])
			acknowledge(d, i, level);
		int last = to_storage(d, ckpt_snapshot_step(d->held[i])) ? CKPT_VERIFIED : CKPT_CAPTURED;
		if (level >= 0 && level < last)
			continue;
		if (level < 0)
			failed(d, i, level, last);
		drop(d, i);
	}
}

static void drop_all(struct drive *d)
{
	look(d);
	while (d->nheld)
		drop(d, 0);
}

/* A wait that names who is late; tests look for the sentence. */
static void wait_for(struct drive *d, unsigned i)
{
	int rc = ckpt_wait(d->held[i], d->wait, (int)d->deadline_ms);
	if (rc == -ETIMEDOUT)
		note(d, "late %lu %s", (unsigned long)ckpt_snapshot_step(d->held[i]), ckpt_error(d->s));
	look(d);
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static void timed(struct drive *d, const char *what, uint64_t begun)
{
	uint64_t ms = (clock_now() - begun) / CLOCK_NS_PER_MS;
	if (ms <= d->deadline_ms)
		return;
	note(d, "slow %s %lu %lu", what, (unsigned long)d->step, (unsigned long)ms);
	exit(EXIT_SLOW);
}

/* -ESTALE: the epoch has moved on. */
static int save(struct drive *d)
{
	ckpt_snapshot *snap;
	uint64_t begun = clock_now();
	bool storage = to_storage(d, d->step);
	int rc = ckpt_begin(d->s, d->step, storage ? CKPT_STORAGE : CKPT_MEMORY, NULL, &snap);
	timed(d, "begin", begun);
	if (rc == -EBUSY || rc == -ENOTCONN || rc == -EALREADY) {
		note(d, "%s %lu %s",
		     rc == -EBUSY      ? "busy"
		     : rc == -EALREADY ? "again"
				       : "gone",
		     (unsigned long)d->step, ckpt_error(d->s));
		return 0;
	}
	if (rc)
		return rc;
	if (d->step == d->mutate)
		d->own[d->elements / 2] ^= 1;
	if (d->step == d->skip_fence) {
		note(d, "unfenced %lu", (unsigned long)d->step);
		if (d->nheld == HELD_MAX)
			drop(d, 0);
		d->shown[d->nheld] = 0;
		d->held[d->nheld++] = snap;
		return 0;
	}
	if (d->step == d->late_fence)
		pause_ms(3 * d->deadline_ms);
	begun = clock_now();
	rc = ckpt_fence(snap, NULL);
	timed(d, "fence", begun);
	if (rc && rc != -ESTALE)
		note(d, "fence %lu %s %s", (unsigned long)d->step, strerrorname_np(-rc), ckpt_error(d->s));
	if (rc) {
		ckpt_snapshot_free(snap);
		return rc == -ESTALE ? rc : 0;
	}
	if (d->nheld == HELD_MAX)
		drop(d, 0);
	d->shown[d->nheld] = 0;
	d->held[d->nheld++] = snap;
	if (storage && d->wait)
		wait_for(d, d->nheld - 1);
	return 0;
}

static int restore(struct drive *d)
{
	ckpt_restored r = CKPT_INIT(ckpt_restored);
	int rc = ckpt_restore(d->s, d->healthy ? CKPT_LATEST_HEALTHY : CKPT_LATEST, NULL, &r, d->join_ms);
	if (rc == -ENOENT || (rc == -ENODATA && d->healthy)) {
		note(d, "fresh %u", ckpt_epoch(d->s));
		fill(d, 0);
		return 0;
	}
	if (rc)
		return rc;
	if (!same(d, r.step)) {
		note(d, "wrong %lu %u", (unsigned long)r.step, r.epoch);
		exit(EXIT_WRONG);
	}
	static const char *const sources[] = {"?", "memory", "peer", "storage"};
	d->step = r.step;
	note(d, "restored %lu %u %s %s", (unsigned long)r.step, r.epoch, sources[r.source], r.why);
	return 0;
}

/* Joins and restores until both succeed in one epoch. A daemon that is being restarted is waited for. */
static void enter(struct drive *d)
{
	uint64_t deadline = clock_deadline(JOIN_MS * CLOCK_NS_PER_MS);
	for (;;) {
		const char *what = "join";
		int rc = ckpt_join(d->s, NULL, 0, NULL, d->join_ms);
		if (!rc) {
			note(d, "joined %u", ckpt_epoch(d->s));
			what = "restore";
			if (d->late_restore)
				pause_ms(3 * (uint64_t)d->join_ms);
			rc = restore(d);
		}
		if (!rc)
			return;
		if ((rc != -ESTALE && rc != -ENOTCONN) || clock_now() > deadline)
			refuse(d, what, rc);
	}
}

static bool finished(const struct drive *d)
{
	if (!d->until)
		return d->step >= d->steps;
	if (!d->pace)
		return !access(d->until, F_OK);
	if (!access(d->until, F_OK))
		pace_end(d->pace, d->step + 2);
	return pace_ended(d->pace, d->step);
}

static void train(struct drive *d)
{
	while (!finished(d)) {
		if (d->step + 1 == d->late)
			pause_ms(3 * d->deadline_ms);
		if (d->pace)
			pace_keep(d->pace, ckpt_rank(d->s), ckpt_world(d->s), d->step + 1);
		fill(d, d->step + 1);
		ckpt_beat(d->s, d->step, CKPT_PHASE_OPTIMIZER);
		int rc = save(d);
		if (rc == -ESTALE) {
			note(d, "stale %lu", (unsigned long)d->step);
			if (d->quit)
				exit(EXIT_STALE);
			drop_all(d);
			enter(d);
		} else if (rc) {
			refuse(d, "save", rc);
		}
		look(d);
		pause_ms(d->pause_ms);
	}
}

/* Saves that are under way get their chance to be acknowledged. */
static void settle(struct drive *d)
{
	for (unsigned i = 0; i < d->nheld; i++)
		ckpt_wait(d->held[i], d->wait ? d->wait : CKPT_CAPTURED, (int)d->deadline_ms);
	drop_all(d);
}

/* ---- command line ------------------------------------------------------------------------------------------------ */

static ckpt_level level_of(const char *word)
{
	return !strcmp(word, "captured") ? CKPT_CAPTURED : !strcmp(word, "durable") ? CKPT_DURABLE : CKPT_VERIFIED;
}

static int open_log(const char *path)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0) {
		perror(path);
		exit(EXIT_USAGE);
	}
	return fd;
}

static void parse(struct drive *d, int argc, char **argv)
{
	static const struct option options[] = {
		{"steps", 1, 0, 's'},        {"storage", 1, 0, 'S'}, {"elements", 1, 0, 'e'},
		{"deadline", 1, 0, 'd'},     {"pause", 1, 0, 'p'},   {"mutate", 1, 0, 'm'},
		{"skip-fence", 1, 0, 'f'},   {"late", 1, 0, 'l'},    {"wait", 1, 0, 'w'},
		{"log", 1, 0, 'o'},          {"strict", 0, 0, 't'},  {"restore-only", 0, 0, 'r'},
		{"until-file", 1, 0, 'u'},   {"pace", 1, 0, 'P'},    {"late-fence", 1, 0, 'F'},
		{"late-restore", 0, 0, 'R'}, {"join", 1, 0, 'j'},    {"healthy", 0, 0, 'H'},
		{"mark", 1, 0, 'M'},         {"quit", 0, 0, 'q'},    {0}};
	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) >= 0;) {
		uint64_t n = optarg ? strtoull(optarg, NULL, 10) : 0;
		switch (c) {
		case 's':
			d->steps = n;
			break;
		case 'M':
			d->mark = n;
			break;
		case 'q':
			d->quit = true;
			break;
		case 'H':
			d->healthy = true;
			break;
		case 'S':
			d->storage = n;
			break;
		case 'e':
			d->elements = n;
			break;
		case 'd':
			d->deadline_ms = n;
			break;
		case 'p':
			d->pause_ms = n;
			break;
		case 'm':
			d->mutate = n;
			break;
		case 'f':
			d->skip_fence = n;
			break;
		case 'l':
			d->late = n;
			break;
		case 'w':
			d->wait = level_of(optarg);
			break;
		case 'o':
			d->log = open_log(optarg);
			break;
		case 't':
			d->strict = 1;
			break;
		case 'r':
			d->restore_only = true;
			break;
		case 'P':
			d->pace = pace_open(optarg);
			if (!d->pace)
				exit(EXIT_USAGE);
			break;
		case 'F':
			d->late_fence = n;
			break;
		case 'R':
			d->late_restore = true;
			break;
		case 'j':
			d->join_ms = (int)n;
			break;
		case 'u':
			d->until = optarg;
			break;
		default:
			exit(EXIT_USAGE);
		}
	}
}

int main(int argc, char **argv)
{
	struct drive d = {.steps = 10,
			  .storage = 1,
			  .elements = 16384,
			  .deadline_ms = 20000,
			  .mutate = UINT64_MAX,
			  .skip_fence = UINT64_MAX,
			  .late = UINT64_MAX,
			  .late_fence = UINT64_MAX,
			  .join_ms = JOIN_MS,
			  .log = STDOUT_FILENO};
	char why[512];
	parse(&d, argc, argv);
	ckpt_options options = CKPT_INIT(ckpt_options);
	options.strict = d.strict;
	int rc = ckpt_open(&options, &d.s, why, sizeof(why));
	if (rc) {
		fprintf(stderr, "drive: %s\n", why);
		return EXIT_REFUSED;
	}
	enroll_all(&d);
	enter(&d);
	if (!d.restore_only)
		train(&d);
	settle(&d);
	rc = ckpt_close(d.s);
	note(&(struct drive){.log = d.log}, "closed %s", rc ? strerrorname_np(-rc) : "0");
	free(d.own);
	free(d.all);
	return 0;
}
