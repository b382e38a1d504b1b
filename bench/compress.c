/* Packing by byte plane, per core: how much smaller chunks of a kind of state get, and how fast they are packed and unpacked, with
 * their digests. Times are of the thread's processor, so that other load on the machine counts little.
 *
 *	weights  normal, standard deviation 0.02         moment2  squares of these: the second moment of Adam
 *	noise    every bit at random: nothing is packed
 *
 *   bench_compress [--size MIB] [--runs N] */
#include "store/read/chunk.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS_MAX = 99 };

static const struct kind {
	const char *name;
	unsigned planes;
	bool square, noise;
} kinds[] = {
	{"bf16 weights", 2, false, false}, {"fp32 weights", 4, false, false}, {"bf16 moment2", 2, true, false},
	{"fp32 moment2", 4, true, false},  {"fp32 noise", 4, false, true},
};

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t next(uint64_t *seed)
{
	uint64_t z = (*seed += 0x9e3779b97f4a7c15ull);
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static double normal(uint64_t *seed)
{
	double u = ((double)(next(seed) >> 11) + 1) / 0x1p53, v = (double)(next(seed) >> 11) / 0x1p53;
	return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

static void fill(const struct kind *kind, uint8_t *data, size_t size)
{
	uint64_t seed = 1;
	for (size_t at = 0; at < size; at += kind->planes) {
		double x = 0.02 * normal(&seed);
		float f = (float)(kind->square ? x * x : x);
		uint32_t bits = kind->noise ? (uint32_t)next(&seed) : 0;
		if (!kind->noise)
			memcpy(&bits, &f, sizeof(bits));
		if (kind->planes == 2)
			bits = (bits + 0x8000) >> 16;
		memcpy(data + at, &bits, kind->planes);
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static void report(const char *what, double *speeds, int runs)
{
	qsort(speeds, (size_t)runs, sizeof(*speeds), by_value);
	printf("  %s %5.2f (%.2f .. %.2f) GB/s", what, speeds[runs / 2], speeds[0], speeds[runs - 1]);
}

struct bench {
	struct chunk_packer *packer;
	struct chunk_unpacker *unpacker;
	struct packed_chunk *chunks;
	uint8_t *data, *stored;
	size_t size;
	int runs;
};

static uint64_t pack_all(struct bench *b, unsigned planes)
{
	uint64_t at = 0;
	for (size_t i = 0; i < b->size / PACKED_CHUNK; i++) {
		struct packed_chunk *c = &b->chunks[i];
		chunk_pack(b->packer, b->data + i * PACKED_CHUNK, PACKED_CHUNK, planes, c, b->stored + at);
		c->at = at;
		at += c->bytes;
	}
	return at;
}

static void unpack_all(struct bench *b)
{
	struct err err;
	for (size_t i = 0; i < b->size / PACKED_CHUNK; i++) {
		const uint8_t *plain;
		if (chunk_unpack(b->unpacker, &b->chunks[i], b->stored + b->chunks[i].at, &plain, &err) < 0 ||
		    memcmp(plain, b->data + i * PACKED_CHUNK, 64)) {
			fprintf(stderr, "bench_compress: chunk %zu does not come back\n", i);
			exit(1);
		}
	}
}

static void measure(struct bench *b, const struct kind *kind)
{
	static double pack[RUNS_MAX], unpack[RUNS_MAX];
	uint64_t stored = 0;
	fill(kind, b->data, b->size);
	for (int run = -1; run < b->runs; run++) { /* run -1 warms up */
		int to = run < 0 ? 0 : run;
		double begin = seconds();
		stored = pack_all(b, kind->planes);
		pack[to] = (double)b->size / (seconds() - begin) / 1e9;
		chunk_forget(b->unpacker);
		begin = seconds();
		unpack_all(b);
		unpack[to] = (double)b->size / (seconds() - begin) / 1e9;
	}
	printf("%-13s ratio %.3f", kind->name, (double)b->size / (double)stored);
	report("pack", pack, b->runs);
	report("unpack", unpack, b->runs);
	printf("\n");
}

int main(int argc, char **argv)
{
	static const struct option table[] = {
		{"size", required_argument, NULL, 's'}, {"runs", required_argument, NULL, 'r'}, {NULL, 0, NULL, 0}};
	struct bench b = {.size = 256, .runs = 7};
	for (int c; (c = getopt_long(argc, argv, "", table, NULL)) != -1;) {
		if (c == 's')
			b.size = strtoul(optarg, NULL, 10);
		else if (c == 'r')
			b.runs = (int)strtol(optarg, NULL, 10);
		else
			return 2;
	}
	if (optind != argc || !b.size || b.size > 1 << 16 || b.runs < 1 || b.runs > RUNS_MAX) {
		fprintf(stderr, "usage: %s [--size MIB] [--runs 1..%d]\n", argv[0], RUNS_MAX);
		return 2;
	}
	b.size <<= 20;
	b.data = malloc(b.size);
	b.stored = malloc(b.size);
	b.chunks = calloc(b.size / PACKED_CHUNK, sizeof(*b.chunks));
	if (!b.data || !b.stored || !b.chunks || chunk_packer_new(&b.packer) < 0 ||
	    chunk_unpacker_new(&b.unpacker) < 0) {
		fputs("bench_compress: no memory\n", stderr);
		return 1;
	}
	printf("%zu MiB, one thread, its processor time, %d runs: median (min .. max)\n", b.size >> 20, b.runs);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		measure(&b, &kinds[i]);
	chunk_packer_free(b.packer);
	chunk_unpacker_free(b.unpacker);
	free(b.chunks);
	free(b.stored);
	free(b.data);
	return 0;
}
