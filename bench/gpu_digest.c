/* The digest kernel against a sweep of the same device memory that only reads. Interleaved, each ratio within one round; the median of
 * them counts. For scripts/gpu-check.
 *
 *   bench_gpu_digest [GIB] */
#include "shared/gpu.h"
#include "shared/gpu_load.h"

#include "base/bytes.h"
#include "cuda/cuda_table.h"
#include "format/tensor/digest.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 11, SWEEPS = 4, BLOCKS = 2048 };

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double time_sweeps(struct gpu *g, const void *memory, size_t bytes, void *sum)
{
	double began = gpu_seconds();
	for (int i = 0; i < SWEEPS; i++)
		gpu_check(g, gpu_sweep(memory, bytes, BLOCKS, sum, g->stream), "sweeping");
	gpu_wait(g, g->stream);
	return gpu_seconds() - began;
}

static double time_digests(struct gpu *g, const struct cuda_table *table, uint64_t *leaves)
{
	double began = gpu_seconds();
	for (int i = 0; i < SWEEPS; i++)
		gpu_check(g, g->rt->digest(g->rt, g->stream, &table->gpu, 0, table->units, leaves, NULL), "digesting");
	gpu_wait(g, g->stream);
	return gpu_seconds() - began;
}

static void measure(struct gpu *g, const struct cuda_table *table, void *memory, size_t bytes, uint64_t *leaves,
		    const char *name, double floor)
{
	double ratios[ROUNDS], sweep = 1e9;
	void *sum = gpu_memory(g, 8);
	time_sweeps(g, memory, bytes, sum);
	time_digests(g, table, leaves);
	for (int i = 0; i < ROUNDS; i++) {
		double s = time_sweeps(g, memory, bytes, sum), d = time_digests(g, table, leaves);
		ratios[i] = s / d;
		sweep = s < sweep ? s : sweep;
	}
	qsort(ratios, ROUNDS, sizeof(ratios[0]), ascending);
	gpu_figure(name, ratios[ROUNDS / 2], "of a sweep", floor, true, "sweep: %.0f GB/s",
		   SWEEPS * (double)bytes / sweep / 1e9);
}

int main(int argc, char **argv)
{
	struct gpu g = gpu_open();
	struct err err;
	struct cuda_table table;
	size_t bytes = (size_t)(argc > 1 ? strtod(argv[1], NULL) * 1024 : 8192) << 20;
	char *memory = gpu_memory(&g, bytes + 16);
	uint64_t nleaves = leaf_count(bytes), *leaves = (void *)gpu_arena(align_up(nleaves * 8, 4096));
	gpu_must(g.ops->arena_attach(g.dev, leaves, align_up(nleaves * 8, 4096), &err), &err, "pinning memory");
	for (int misplaced = 0; misplaced <= 2; misplaced += 2) {
		struct span span = {.memory = memory + misplaced, .row_bytes = bytes};
		gpu_must(cuda_table_init(g.dev, &table, &span, 1, &err), &err, "making a table");
		measure(&g, &table, memory, bytes, leaves,
			misplaced ? "digest kernel, memory at an odd multiple of 2" : "digest kernel",
			misplaced ? 0 : 0.9);
		cuda_table_free(g.dev, &table);
	}
	return 0;
}
