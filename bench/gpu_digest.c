/* The digest kernel against a sweep of the same device memory that only reads. Interleaved, each ratio within one round; the median of
 * them counts. For scripts/gpu-check.
 *
 *   bench_gpu_digest [GIB] */
#include "shared/gpu.h"
#include "shared/gpu_load.h"
#include "shared/gpu_quantile.h"
#include "shared/gpu_verify.h"

#include "base/bytes.h"
#include "cuda/cuda_table.h"
#include "format/tensor/digest.h"

enum { ROUNDS = 11, SWEEPS = 4, VERIFIED = 64 /* leaves */, SEED = 1 };

static double time_sweeps(struct gpu *g, const void *memory, size_t bytes, void *sum)
{
	double began = gpu_seconds();
	for (int i = 0; i < SWEEPS; i++)
		gpu_check(g, gpu_sweep(memory, bytes, gpu_blocks(bytes), sum, g->stream), "sweeping");
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

/* Of the first leaves, and of the last ones. */
static void expect_digests(struct gpu *g, const char *name, const char *memory, size_t bytes, const uint64_t *leaves)
{
	char packed[LEAF_SIZE];
	uint64_t n = leaf_count(bytes);
	for (uint64_t leaf = 0; leaf < n; leaf = leaf == VERIFIED && n > 2 * VERIFIED ? n - VERIFIED : leaf + 1) {
		size_t part = min_u64(bytes - leaf * LEAF_SIZE, LEAF_SIZE);
		gpu_read(g, packed, memory + leaf * LEAF_SIZE, part);
		gpu_expect_leaves(name, packed, part, leaves + leaf);
	}
}

static void measure(struct gpu *g, const struct cuda_table *table, const struct span *span, const void *memory,
		    uint64_t *leaves, const char *name, double floor)
{
	double ratios[ROUNDS], sweep = 1e9;
	size_t bytes = span->row_bytes;
	void *sum = gpu_memory(g, 8);
	time_sweeps(g, memory, bytes, sum);
	time_digests(g, table, leaves);
	for (int i = 0; i < ROUNDS; i++) {
		double s = time_sweeps(g, memory, bytes, sum), d = time_digests(g, table, leaves);
		ratios[i] = s / d;
		sweep = s < sweep ? s : sweep;
	}
	expect_digests(g, name, span->memory, bytes, leaves);
	gpu_figure(name, gpu_quantile(ratios, ROUNDS, 0.5), "of a sweep", floor, true, "sweep: %.0f GB/s",
		   SWEEPS * (double)bytes / sweep / 1e9);
}

int main(int argc, char **argv)
{
	struct gpu g = gpu_open();
	struct err err;
	struct cuda_table table;
	size_t bytes = gpu_argument_gib(argc, argv, 1, 8);
	char *memory = gpu_memory(&g, bytes + 16);
	gpu_check(&g, gpu_fill(memory, bytes + 16, SEED, g.stream), "filling the memory");
	gpu_drain(&g, g.stream);
	uint64_t nleaves = leaf_count(bytes), *leaves = (void *)gpu_arena(align_up(nleaves * 8, 4096));
	gpu_must(g.ops->arena_attach(g.dev, leaves, align_up(nleaves * 8, 4096), &err), &err, "pinning memory");
	for (int misplaced = 0; misplaced <= 2; misplaced += 2) {
		struct span span = {.memory = memory + misplaced, .row_bytes = bytes};
		gpu_must(cuda_table_init(g.dev, &table, &span, 1, &err), &err, "making a table");
		measure(&g, &table, &span, memory, leaves,
			misplaced ? "digest kernel, memory at an odd multiple of 2" : "digest kernel",
			misplaced ? 0 : 0.9);
		cuda_table_free(g.dev, &table);
	}
	return 0;
}
