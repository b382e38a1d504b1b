/* Digest of host memory per core against a plain read of the same memory.
 *
 * Memory much larger than the last cache is read by a loop that only adds it up, with the widest vectors of the CPU, and
 * digested leaf by leaf on each path. Runs are interleaved, each ratio is within one run, times are of the thread's
 * processor, so that other load on the machine does not count as ours. Exit 1 when the path that digest_leaf uses is below
 * the floor, 2 on a usage error.
 *
 *   bench_digest [--size MIB] [--runs N] [--floor RATIO] [--huge] */
#include "format/tensor/digest.h"
#include "format/tensor/digest_path.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { RUNS_MAX = 99, PATHS_MAX = 8 };

struct options {
	size_t size;
	int runs;
	double floor;
	bool huge;
};

/* Four independent sums hide the latency of the additions. */
#define PLAIN_READ(attribute, name, width)                                                                             \
	attribute static uint64_t name(const void *data, size_t size)                                                  \
	{                                                                                                              \
		typedef uint64_t vec __attribute__((vector_size(width)));                                              \
		const vec *v = data;                                                                                   \
		vec a = {0}, b = {0}, c = {0}, d = {0};                                                                \
		for (size_t i = 0; i < size / (width); i += 4) {                                                       \
			a += v[i];                                                                                     \
			b += v[i + 1];                                                                                 \
			c += v[i + 2];                                                                                 \
			d += v[i + 3];                                                                                 \
		}                                                                                                      \
		a += b + c + d;                                                                                        \
		uint64_t sum = 0;                                                                                      \
		for (size_t i = 0; i < (width) / 8; i++)                                                               \
			sum += a[i];                                                                                   \
		return sum;                                                                                            \
	}

PLAIN_READ(, read_16, 16)
#if DIGEST_X86
PLAIN_READ(__attribute__((target("avx2"))), read_32, 32)

PLAIN_READ(__attribute__((target("avx512f"))), read_64, 64)
#endif

typedef uint64_t reader(const void *data, size_t size);

static reader *widest_reader(const char **name)
{
#if DIGEST_X86
	*name = "64-byte";
	if (__builtin_cpu_supports("avx512f"))
		return read_64;
	*name = "32-byte";
	if (__builtin_cpu_supports("avx2"))
		return read_32;
#endif
	*name = "16-byte";
	return read_16;
}

static uint64_t digest_all(const struct digest_path *path, const unsigned char *data, size_t size)
{
	uint64_t all = 0;
	for (size_t at = 0; at < size; at += LEAF_SIZE)
		all ^= path->leaf(data + at, LEAF_SIZE);
	return all;
}

static volatile uint64_t kept; /* a result that nobody looks at would not be computed */

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static double report(const char *name, double *ratios, double *speeds, int runs, bool used)
{
	qsort(ratios, runs, sizeof(*ratios), by_value);
	qsort(speeds, runs, sizeof(*speeds), by_value);
	printf("%-16s %6.1f GB/s  ratio %.3f (%.3f .. %.3f)%s\n", name, speeds[runs / 2], ratios[runs / 2], ratios[0],
	       ratios[runs - 1], used ? "  <- used" : "");
	return ratios[runs / 2];
}

static int measure(const unsigned char *data, const struct options *o)
{
	static double ratios[PATHS_MAX][RUNS_MAX], speeds[PATHS_MAX][RUNS_MAX], plain[RUNS_MAX], one[RUNS_MAX];
	const char *width;
	size_t npaths;
	reader *read = widest_reader(&width);
	const struct digest_path *paths = digest_paths(&npaths);
	for (int run = -1; run < o->runs; run++) { /* run -1 warms up */
		int to = run < 0 ? 0 : run;
		double begin = seconds();
		kept = read(data, o->size);
		double base = seconds() - begin;
		plain[to] = (double)o->size / base / 1e9;
		one[to] = 1;
		for (size_t p = 0; p < npaths; p++) {
			if (!paths[p].usable())
				continue;
			begin = seconds();
			kept = digest_all(&paths[p], data, o->size);
			double took = seconds() - begin;
			ratios[p][to] = base / took;
			speeds[p][to] = (double)o->size / took / 1e9;
		}
	}
	char name[32];
	snprintf(name, sizeof(name), "read, %s", width);
	report(name, one, plain, o->runs, false);
	double used = -1;
	for (size_t p = 0; p < npaths; p++) {
		if (!paths[p].usable()) {
			printf("%-16s not on this CPU\n", paths[p].name);
			continue;
		}
		double ratio = report(paths[p].name, ratios[p], speeds[p], o->runs, used < 0);
		used = used < 0 ? ratio : used;
	}
	if (used < o->floor)
		printf("FAIL: %.3f is below the floor of %.3f\n", used, o->floor);
	return used < o->floor;
}

static int usage(const char *program)
{
	fprintf(stderr, "usage: %s [--size MIB] [--runs 1..%d] [--floor RATIO] [--huge]\n", program, RUNS_MAX);
	return 2;
}

/* 0, or 2 after a message. */
static int parse(int argc, char **argv, struct options *o)
{
	static const struct option table[] = {
		{"size", required_argument, NULL, 's'},
		{"runs", required_argument, NULL, 'r'},
		{"floor", required_argument, NULL, 'f'},
		{"huge", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	*o = (struct options){.size = 1024, .runs = 9};
	for (int c; (c = getopt_long(argc, argv, "", table, NULL)) != -1;) {
		char *end = NULL;
		if (c == 's')
			o->size = strtoul(optarg, &end, 10);
		else if (c == 'r')
			o->runs = (int)strtol(optarg, &end, 10);
		else if (c == 'f')
			o->floor = strtod(optarg, &end);
		else if (c == 'h')
			o->huge = true;
		else
			return usage(argv[0]);
		if (end && (end == optarg || *end))
			return usage(argv[0]);
	}
	if (optind != argc || o->size < 1 || o->size > 1 << 20 || o->runs < 1 || o->runs > RUNS_MAX)
		return usage(argv[0]);
	o->size <<= 20;
	return 0;
}

int main(int argc, char **argv)
{
	struct options o;
	int rc = parse(argc, argv, &o);
	if (rc)
		return rc;
	unsigned char *data = mmap(NULL, o.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (data == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	if (o.huge && madvise(data, o.size, MADV_HUGEPAGE))
		perror("madvise: no huge pages");
	for (size_t i = 0; i < o.size; i += 8)
		memcpy(data + i, &(uint64_t){i * 0x9e3779b97f4a7c15ull}, 8);
	printf("%zu MiB, %s pages, %d interleaved runs: median (min .. max)\n", o.size >> 20, o.huge ? "huge" : "4 KiB",
	       o.runs);
	rc = measure(data, &o);
	munmap(data, o.size);
	return rc;
}
