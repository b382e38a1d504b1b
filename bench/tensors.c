/* bench_tensors: one rank with many small tensors of the host, for bench/tensors.py: what each of them costs when it is registered, in ckpt_join
 * and in ckpt_begin. Answers lines on stdin with lines, as bench_rank does:
 *
 *	at the start               "ready BYTES REGISTER CPU JOIN CPU": ns of all ckpt_register_tensor, and of ckpt_join, by
 *	                           the clock and of processor time of the thread
 *	begins FIRST N MOVED       N saves to memory, before each of which MOVED tensors are rebound (ckpt_rebind) → "begins B R C …": ns
 *	                           of ckpt_begin, of the rebinding, and from begin to captured
 *	copy                       memcpy of every tensor, one by one, into memory that is there already → "copied NS"
 *	quit
 *
 *   bench_tensors TENSORS BYTES flat|separate     flat: they adjoin in one buffer; separate: each in an allocation of its own */
#include "base/clock.h"
#include "ckpt.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINE_BYTES = 256, NAME_BYTES = 64 };

struct state {
	ckpt *s;
	uint64_t n, bytes; /* tensors, of so many bytes each */
	char **memory[2];  /* of each tensor: where it is, and where it is rebound to */
	char *copy;
	uint64_t moves; /* so far, of all tensors in turn */
};

static void must(const struct state *st, int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "bench_tensors: %s: %s\n", what, st->s ? ckpt_error(st->s) : "");
	exit(1);
}

static void *memory(size_t bytes)
{
	void *p = malloc(bytes);
	if (!p) {
		fprintf(stderr, "bench_tensors: no memory for %zu bytes\n", bytes);
		exit(1);
	}
	return memset(p, 1, bytes);
}

static void allocate(struct state *st, bool flat)
{
	for (int side = 0; side < 2; side++) {
		char *buffer = flat ? memory(st->n * st->bytes) : NULL;
		st->memory[side] = memory(st->n * sizeof(char *));
		for (uint64_t i = 0; i < st->n; i++)
			st->memory[side][i] = flat ? buffer + i * st->bytes : memory(st->bytes);
	}
	st->copy = memory(st->n * st->bytes);
}

/* As a model with layers names them. */
static const char *name_of(uint64_t i, char name[NAME_BYTES])
{
	snprintf(name, NAME_BYTES, "model.layers.%" PRIu64 ".block.parameter_%" PRIu64, i / 100, i % 100);
	return name;
}

static void register_all(struct state *st)
{
	for (uint64_t i = 0; i < st->n; i++) {
		char name[NAME_BYTES];
		ckpt_piece piece = {.data = st->memory[0][i]};
		ckpt_tensor tensor = CKPT_INIT(ckpt_tensor);
		tensor.name = name_of(i, name);
		tensor.dtype = CKPT_U8;
		tensor.ndim = 1;
		tensor.shape = &st->bytes;
		tensor.pieces = &piece;
		tensor.npieces = 1;
		tensor.device = CKPT_HOST;
		must(st, ckpt_register_tensor(st->s, &tensor), "register");
	}
}

/* Of this thread. */
static uint64_t processor_time(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * CLOCK_NS_PER_S + (uint64_t)t.tv_nsec;
}

static void start(struct state *st)
{
	char why[512];
	if (ckpt_open(NULL, &st->s, why, sizeof(why))) {
		fprintf(stderr, "bench_tensors: open: %s\n", why);
		exit(1);
	}
	uint64_t began = clock_now(), used = processor_time();
	register_all(st);
	uint64_t registered = clock_now(), used_registering = processor_time();
	must(st, ckpt_join(st->s, NULL, 0, NULL, -1), "join");
	printf("ready %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", st->n * st->bytes,
	       registered - began, used_registering - used, clock_now() - registered,
	       processor_time() - used_registering);
	fflush(stdout);
}

/* Of all tensors in turn, each to the place where it does not stand. */
static uint64_t rebind(struct state *st, uint64_t moved)
{
	uint64_t began = clock_now();
	for (uint64_t k = 0; k < moved; k++, st->moves++) {
		char name[NAME_BYTES];
		uint64_t i = st->moves % st->n, side = 1 - st->moves / st->n % 2;
		must(st, ckpt_rebind(st->s, name_of(i, name), 0, st->memory[side][i]), "rebind");
	}
	return clock_now() - began;
}

static void save(struct state *st, uint64_t step, uint64_t moved)
{
	ckpt_snapshot *snap;
	uint64_t rebound = rebind(st, moved), began = clock_now();
	must(st, ckpt_begin(st->s, step, CKPT_MEMORY, NULL, &snap), "begin");
	uint64_t begun = clock_now() - began;
	must(st, ckpt_fence(snap, NULL), "fence");
	must(st, ckpt_wait(snap, CKPT_CAPTURED, -1), "wait");
	printf(" %" PRIu64 " %" PRIu64 " %" PRIu64, begun, rebound, clock_now() - began);
	ckpt_snapshot_free(snap);
}

static void copy(const struct state *st)
{
	uint64_t began = clock_now();
	for (uint64_t i = 0; i < st->n; i++)
		memcpy(st->copy + i * st->bytes, st->memory[0][i], st->bytes);
	printf("copied %" PRIu64 "\n", clock_now() - began);
}

/* false: quit. */
static bool command(struct state *st, const char *line)
{
	uint64_t first, n, moved;
	if (sscanf(line, "begins %" SCNu64 " %" SCNu64 " %" SCNu64, &first, &n, &moved) == 3) {
		printf("begins");
		for (uint64_t i = 0; i < n; i++)
			save(st, first + i, moved);
		printf("\n");
	} else if (!strncmp(line, "copy", 4)) {
		copy(st);
	} else {
		return false;
	}
	fflush(stdout);
	return true;
}

int main(int argc, char **argv)
{
	struct state st = {0};
	bool flat = argc == 4 && !strcmp(argv[3], "flat");
	if (argc == 4) {
		st.n = strtoull(argv[1], NULL, 10);
		st.bytes = strtoull(argv[2], NULL, 10);
	}
	if (!st.n || !st.bytes || (!flat && strcmp(argv[3], "separate") != 0)) {
		fprintf(stderr, "usage: bench_tensors TENSORS BYTES flat|separate\n");
		return 2;
	}
	allocate(&st, flat);
	start(&st);
	for (char line[LINE_BYTES]; fgets(line, sizeof(line), stdin) && command(&st, line);)
		;
	return ckpt_close(st.s) ? 1 : 0;
}
