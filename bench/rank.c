/* bench_rank: one rank of a job, driven by lines on stdin, for the benchmarks that go through the daemon. It registers MIB of host
 * memory as TENSORS tensors of rows (each rank holds its share of the rows of each), joins, and answers each line with one line.
 * Times are of CLOCK_MONOTONIC in nanoseconds, so that a driver can compare those of several ranks.
 *
 *	save STEP memory|storage [MS]  begin, MS without the state changing, fence, wait →
 *	                           "begin B begun E fence G fenced F captured C durable D" (D 0: memory only)
 *	work N                     N steps of a training that computes in its caches → "steps T T …": how long each took
 *	busy STEP durable|verified the same while a save to storage runs: begin, fence, steps until the level →
 *	                           "steps T T …": those that ended before it
 *	begins FIRST N             N saves to memory, one after the other → "begins B R B R …": how long each ckpt_begin took, and
 *	                           before it a write to an eventfd that wakes a sleeping thread: what the machine does to that
 *	restore STEP               → after a join of its own, "restored source S step N bytes B fetch_ns F load_ns L took_ns T early E"
 *	fill SEED                  contents that follow from the seed, the tensor and the place → "filled"
 *	change SEED                the same, but frozen tensors stay as they are → "changed"
 *	touch FIRST                one element in 16 KiB changes, of the tensors from FIRST on: no leaf of theirs is what it was → "touched"
 *	check SEED                 → "same", or "differs" and exit 1
 *	copy                       memcpy of the state, by parts, into memory that is there already → "copied NS BYTES"
 *	quit
 *
 *   bench_rank [--mib N] [--tensors N] [--columns] [--frozen N] [--weights] [--replicas]     --columns: shares are columns, not rows;
 *   --frozen: the first N tensors are a group of their own, "frozen"; --weights: values spread as weights are; --replicas: each rank
 *   holds all of them, as the others do */
#include "base/clock.h"
#include "ckpt.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { WORK_FLOATS = 32 << 10, WORK_ROUNDS = 1500 };
enum { TOUCH_EACH = (16 << 10) / sizeof(uint32_t) };
enum { COLUMNS = 4096, LINE_MAX_BYTES = 256, COPY_BYTES = 512 << 20 /* much larger than caches */ };

struct state {
	ckpt *s;
	uint8_t *base, *copy;
	size_t bytes; /* of this rank */
	int tensors, frozen;
	uint64_t rows; /* of each tensor, over all ranks */
	bool columns, weights, replicas;
};

static void die(const struct state *st, const char *what, int rc)
{
	fprintf(stderr, "bench_rank: %s: %s: %s\n", what, strerror(-rc), st->s ? ckpt_error(st->s) : "");
	exit(1);
}

static uint8_t *memory(size_t bytes)
{
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		perror("bench_rank: mmap");
		exit(1);
	}
	madvise(p, bytes, MADV_HUGEPAGE);
	memset(p, 1, bytes);
	return p;
}

/* ---- contents ---------------------------------------------------------------------------------------------------- */

/* The element at a place of a tensor, whoever holds it. */
static uint32_t element(uint64_t seed, uint64_t tensor, uint64_t at)
{
	uint64_t x = (seed << 48 ^ tensor << 32 ^ at) * 0x9e3779b97f4a7c15ull;
	x ^= x >> 29;
	return (uint32_t)(x * 0xbf58476d1ce4e5b9ull >> 32);
}

/* The same, as F32: spread about as weights are, every bit of the mantissa at random. */
static uint32_t weight(uint64_t seed, uint64_t tensor, uint64_t at)
{
	uint64_t x = element(seed, tensor, at) * 0x94d049bb133111ebull, y = (x ^ x >> 31) * 0xd6e8feb86659fd93ull;
	double sum = (double)((x & 0xffff) + (x >> 16 & 0xffff) + (x >> 32 & 0xffff) + (x >> 48)) +
		     (double)(y >> 32) / 0x1p32;
	float value = (float)((sum - 2 * 65535.5) / 65536 * 0.035);
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

struct share {
	uint64_t offset[2], extent[2];
};

static struct share share_of(const struct state *st)
{
	uint64_t rank = (uint64_t)ckpt_rank(st->s), world = (uint64_t)ckpt_world(st->s);
	struct share share = {.extent = {st->rows, COLUMNS}};
	uint64_t all = share.extent[st->columns];
	if (st->replicas)
		return share;
	share.offset[st->columns] = all * rank / world;
	share.extent[st->columns] = all * (rank + 1) / world - share.offset[st->columns];
	return share;
}

/* Calls for every element of this rank from tensor `first` on, in order of memory; false: fn said no. */
static bool walk(const struct state *st, int first, uint64_t seed, bool check)
{
	struct share share = share_of(st);
	uint32_t *p = (uint32_t *)st->base + share.extent[0] * share.extent[1] * (uint64_t)first;
	for (int t = first; t < st->tensors; t++) {
		for (uint64_t row = 0; row < share.extent[0]; row++) {
			uint64_t at = (share.offset[0] + row) * COLUMNS + share.offset[1];
			for (uint64_t column = 0; column < share.extent[1]; column++, p++) {
				uint32_t want = (st->weights ? weight : element)(seed, (uint64_t)t, at + column);
				if (check && *p != want)
					return false;
				*p = want;
			}
		}
	}
	return true;
}

/* As quick as the lines of the cache allow: what matters is that everything must be saved anew. */
static void touch(const struct state *st, uint64_t first)
{
	struct share share = share_of(st);
	uint64_t each = share.extent[0] * share.extent[1];
	uint32_t *p = (uint32_t *)st->base;
	for (uint64_t t = first; t < (uint64_t)st->tensors; t++)
		for (uint64_t i = 0; i < each; i += TOUCH_EACH)
			p[t * each + i]++;
	printf("touched\n");
}

/* ---- start ------------------------------------------------------------------------------------------------------- */

static void register_all(struct state *st)
{
	struct share share = share_of(st);
	uint64_t shape[2] = {st->rows, COLUMNS};
	uint64_t each = share.extent[0] * share.extent[1] * sizeof(uint32_t);
	st->bytes = each * (uint64_t)st->tensors;
	st->base = memory(st->bytes);
	for (int t = 0; t < st->tensors; t++) {
		char name[32];
		snprintf(name, sizeof(name), "layer.%05d", t);
		ckpt_piece piece = {
			.data = st->base + each * (uint64_t)t, .offset = share.offset, .extent = share.extent};
		ckpt_tensor tensor = CKPT_INIT(ckpt_tensor);
		tensor.name = name;
		tensor.group = t < st->frozen ? "frozen" : NULL;
		tensor.replica = st->replicas ? "all" : NULL;
		tensor.dtype = CKPT_F32;
		tensor.ndim = 2;
		tensor.shape = shape;
		tensor.pieces = &piece;
		tensor.npieces = 1;
		tensor.device = CKPT_HOST;
		int rc = ckpt_register_tensor(st->s, &tensor);
		if (rc)
			die(st, "register", rc);
	}
}

static void start(struct state *st, uint64_t mib)
{
	char why[512];
	int rc = ckpt_open(NULL, &st->s, why, sizeof(why));
	if (rc) {
		fprintf(stderr, "bench_rank: open: %s\n", why);
		exit(1);
	}
	/* MIB are those of the job. */
	st->rows = (mib << 20) / sizeof(uint32_t) / COLUMNS / (uint64_t)st->tensors;
	register_all(st);
	rc = ckpt_join(st->s, NULL, 0, NULL, -1);
	if (rc)
		die(st, "join", rc);
	walk(st, 0, 1, false);
	printf("ready %zu\n", st->bytes);
	fflush(stdout);
}

/* ---- commands ---------------------------------------------------------------------------------------------------- */

static void wait_level(struct state *st, ckpt_snapshot *snap, ckpt_level level)
{
	int rc = ckpt_wait(snap, level, -1);
	if (rc)
		die(st, "wait", rc);
}

static void pause_ms(uint64_t ms)
{
	struct timespec left = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

static void save(struct state *st, uint64_t step, bool storage, uint64_t ms)
{
	ckpt_snapshot *snap;
	uint64_t begin = clock_now();
	int rc = ckpt_begin(st->s, step, storage ? CKPT_STORAGE : CKPT_MEMORY, NULL, &snap);
	uint64_t begun = clock_now();
	if (rc)
		die(st, "begin", rc);
	pause_ms(ms);
	uint64_t fence = clock_now();
	rc = ckpt_fence(snap, NULL);
	uint64_t fenced = clock_now();
	if (rc)
		die(st, "fence", rc);
	wait_level(st, snap, CKPT_CAPTURED);
	uint64_t captured = clock_now(), durable = 0;
	if (storage) {
		wait_level(st, snap, CKPT_DURABLE);
		durable = clock_now();
	}
	ckpt_snapshot_free(snap);
	printf("begin %" PRIu64 " begun %" PRIu64 " fence %" PRIu64 " fenced %" PRIu64 " captured %" PRIu64
	       " durable %" PRIu64 "\n",
	       begin, begun, fence, fenced, captured, durable);
}

/* A step: a fixed amount of vector arithmetic, some 10 ms, on memory that stays in the caches of its processor. */
static uint64_t work_step(float *cached)
{
	uint64_t begin = clock_now();
	for (int round = 0; round < WORK_ROUNDS; round++)
		for (int i = 0; i < WORK_FLOATS; i++)
			cached[i] = cached[i] * 0.999f + 0.001f;
	return clock_now() - begin;
}

static float *work_memory(const struct state *st)
{
	float *cached = calloc(WORK_FLOATS, sizeof(*cached));
	if (!cached)
		die(st, "work", -ENOMEM);
	return cached;
}

static void work(const struct state *st, uint64_t n)
{
	float *cached = work_memory(st);
	printf("steps");
	for (uint64_t i = 0; i < n; i++)
		printf(" %" PRIu64, work_step(cached));
	printf("\n");
	free(cached);
}

/* No wait: the thread that trains only looks, after each step. */
static void busy(struct state *st, uint64_t step, ckpt_level level)
{
	ckpt_snapshot *snap;
	float *cached = work_memory(st);
	int rc = ckpt_begin(st->s, step, CKPT_STORAGE, NULL, &snap), reached = 0;
	if (!rc)
		rc = ckpt_fence(snap, NULL);
	if (rc)
		die(st, "save", rc);
	printf("steps");
	for (uint64_t took; took = work_step(cached), (reached = ckpt_poll(snap)) >= 0 && reached < (int)level;)
		printf(" %" PRIu64, took);
	printf("\n");
	if (reached < 0)
		die(st, "poll", reached);
	ckpt_snapshot_free(snap);
	free(cached);
}

/* A thread that sleeps until it is rung, as the daemon does. */
struct sleeper {
	pthread_t thread;
	int bell;
};

static void *sleep_on(void *arg)
{
	uint64_t rung = 0;
	while (read(((struct sleeper *)arg)->bell, &rung, sizeof(rung)) == sizeof(rung) && rung < UINT32_MAX)
		;
	return NULL;
}

static void ring(const struct state *st, const struct sleeper *sleeper, uint64_t value)
{
	if (write(sleeper->bell, &value, sizeof(value)) != sizeof(value))
		die(st, "eventfd", -errno);
}

static uint64_t begin_once(struct state *st, uint64_t step)
{
	ckpt_snapshot *snap;
	uint64_t begin = clock_now();
	int rc = ckpt_begin(st->s, step, CKPT_MEMORY, NULL, &snap);
	uint64_t took = clock_now() - begin;
	if (rc)
		die(st, "begin", rc);
	rc = ckpt_fence(snap, NULL);
	if (rc)
		die(st, "fence", rc);
	wait_level(st, snap, CKPT_CAPTURED);
	ckpt_snapshot_free(snap);
	return took;
}

/* The next begin comes when the last snapshot is complete, as in a loop whose steps are longer than a capture. */
static void begins(struct state *st, uint64_t first, uint64_t n)
{
	struct sleeper sleeper = {.bell = eventfd(0, EFD_CLOEXEC)};
	if (sleeper.bell < 0 || pthread_create(&sleeper.thread, NULL, sleep_on, &sleeper))
		die(st, "sleeper", -EAGAIN);
	printf("begins");
	for (uint64_t i = 0; i < n; i++) {
		uint64_t begin = clock_now();
		ring(st, &sleeper, 1);
		uint64_t rung = clock_now() - begin;
		printf(" %" PRIu64 " %" PRIu64, begin_once(st, first + i), rung);
	}
	printf("\n");
	ring(st, &sleeper, UINT32_MAX);
	pthread_join(sleeper.thread, NULL);
	close(sleeper.bell);
}

static void restore(struct state *st, uint64_t step)
{
	ckpt_restored r = CKPT_INIT(ckpt_restored);
	/* A new epoch: in one in which saves were begun no restore is allowed. */
	int rc = ckpt_join(st->s, NULL, 0, NULL, -1);
	if (rc)
		die(st, "join", rc);
	uint64_t begin = clock_now();
	rc = ckpt_restore(st->s, step, NULL, &r, -1);
	uint64_t took = clock_now() - begin;
	if (rc)
		die(st, "restore", rc);
	printf("restored source %d step %" PRIu64 " bytes %" PRIu64 " fetch_ns %" PRIu64 " load_ns %" PRIu64
	       " took_ns %" PRIu64 " early %" PRIu64 "\n",
	       (int)r.source, r.step, r.bytes, r.fetch_ns, r.load_ns, took, r.early_bytes);
}

static void copy(struct state *st)
{
	if (!st->copy)
		st->copy = memory(COPY_BYTES);
	uint64_t begin = clock_now();
	for (size_t at = 0; at < st->bytes; at += COPY_BYTES)
		memcpy(st->copy, st->base + at, st->bytes - at < COPY_BYTES ? st->bytes - at : COPY_BYTES);
	printf("copied %" PRIu64 " %zu\n", clock_now() - begin, st->bytes);
}

static void check(struct state *st, uint64_t seed)
{
	if (!walk(st, 0, seed, true)) {
		printf("differs\n");
		exit(1);
	}
	printf("same\n");
}

/* false: quit. */
static bool command(struct state *st, const char *line)
{
	char word[16], target[16] = "";
	uint64_t a = 0, b = 0;
	if (sscanf(line, "%15s %" SCNu64 " %" SCNu64, word, &a, &b) < 1)
		return true;
	if (!strcmp(word, "save") && sscanf(line, "%*s %*s %15s %" SCNu64, target, &b) >= 1)
		save(st, a, !strcmp(target, "storage"), b);
	else if (!strcmp(word, "work"))
		work(st, a);
	else if (!strcmp(word, "busy") && sscanf(line, "%*s %*s %15s", target) == 1)
		busy(st, a, strcmp(target, "verified") ? CKPT_DURABLE : CKPT_VERIFIED);
	else if (!strcmp(word, "begins"))
		begins(st, a, b);
	else if (!strcmp(word, "restore"))
		restore(st, a);
	else if (!strcmp(word, "fill") && walk(st, 0, a, false))
		printf("filled\n");
	else if (!strcmp(word, "change") && walk(st, st->frozen, a, false))
		printf("changed\n");
	else if (!strcmp(word, "touch"))
		touch(st, a);
	else if (!strcmp(word, "check"))
		check(st, a);
	else if (!strcmp(word, "copy"))
		copy(st);
	else if (!strcmp(word, "quit"))
		return false;
	else
		die(st, line, -EINVAL);
	fflush(stdout);
	return true;
}

int main(int argc, char **argv)
{
	static const struct option table[] = {{"mib", required_argument, NULL, 'm'},
					      {"tensors", required_argument, NULL, 't'},
					      {"columns", no_argument, NULL, 'c'},
					      {"frozen", required_argument, NULL, 'f'},
					      {"weights", no_argument, NULL, 'w'},
					      {"replicas", no_argument, NULL, 'r'},
					      {NULL, 0, NULL, 0}};
	struct state st = {.tensors = 32};
	uint64_t mib = 4096;
	for (int c; (c = getopt_long(argc, argv, "", table, NULL)) >= 0;) {
		if (c == 'm')
			mib = strtoull(optarg, NULL, 10);
		else if (c == 't')
			st.tensors = (int)strtol(optarg, NULL, 10);
		else if (c == 'f')
			st.frozen = (int)strtol(optarg, NULL, 10);
		else if (c == 'c')
			st.columns = true;
		else if (c == 'w')
			st.weights = true;
		else if (c == 'r')
			st.replicas = true;
		else
			return 2;
	}
	if (!mib || st.tensors < 1 || st.frozen < 0 || st.frozen > st.tensors)
		return 2;
	start(&st, mib);
	for (char line[LINE_MAX_BYTES]; fgets(line, sizeof(line), stdin) && command(&st, line);)
		;
	int rc = ckpt_close(st.s);
	return rc ? 1 : 0;
}
