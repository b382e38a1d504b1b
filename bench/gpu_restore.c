/* A restore to the device, each leaf checked there, against one large copy out of pinned memory. For scripts/gpu-check.
 *
 *   bench_gpu_restore [GIB [TENSORS]] */
#include "shared/gpu_load.h"
#include "shared/gpu_quantile.h"
#include "shared/gpu_verify.h"

#include "base/bytes.h"
#include "format/tensor/digest.h"

#include <stdlib.h>

enum { ROUNDS = 7, SEED = 1 };

static struct span *make_spans(char *memory, size_t *bytes, size_t n, uint64_t *nleaves)
{
	struct span *spans = calloc(n, sizeof(*spans));
	size_t each = *bytes / n / 256 * 256;
	for (size_t i = 0; i < n; i++)
		spans[i] = (struct span){.memory = memory + i * each,
					 .row_bytes = each,
					 .arena_at = i * each,
					 .first_leaf = i * leaf_count(each)};
	*nleaves = n * leaf_count(each);
	*bytes = n * each;
	return spans;
}

struct load {
	struct gpu g;
	struct span *spans;
	size_t n, bytes;
	char *memory, *arena;
	uint64_t *leaves;
};

static void fill(struct load *l, uint64_t seed)
{
	gpu_check(&l->g, gpu_fill(l->memory, l->bytes, seed, l->g.stream), "filling the memory");
	gpu_drain(&l->g, l->g.stream);
}

static void make(struct load *l)
{
	struct err err;
	uint64_t nleaves;
	l->g = gpu_open();
	l->memory = gpu_memory(&l->g, l->bytes);
	l->arena = gpu_arena(l->bytes);
	gpu_must(l->g.ops->arena_attach(l->g.dev, l->arena, l->bytes, &err), &err, "pinning the arena");
	l->spans = make_spans(l->memory, &l->bytes, l->n, &nleaves);
	l->leaves = malloc(nleaves * 8);
	fill(l, SEED);
	gpu_check(&l->g, l->g.rt->copy(l->g.rt, l->arena, l->memory, l->bytes, l->g.stream), "copying");
	gpu_drain(&l->g, l->g.stream);
	gpu_expect_words("the arena", l->arena, l->bytes, SEED, 0);
	for (size_t i = 0; i < l->n; i++)
		digest_leaves(l->arena + l->spans[i].arena_at, l->spans[i].row_bytes,
			      l->leaves + l->spans[i].first_leaf);
}

static double time_copy(struct load *l)
{
	double began = gpu_seconds();
	gpu_check(&l->g, l->g.rt->copy(l->g.rt, l->memory, l->arena, l->bytes, l->g.stream), "copying");
	gpu_drain(&l->g, l->g.stream);
	return gpu_seconds() - began;
}

/* Over other bytes, so that none is there before it comes. */
static double time_restore(struct load *l)
{
	struct err err;
	fill(l, SEED + 1);
	double began = gpu_seconds();
	gpu_must(l->g.ops->restore(l->g.dev, l->arena, l->spans, l->n, l->leaves, l->g.stream, NULL, &err), &err,
		 "restore");
	double took = gpu_seconds() - began;
	for (size_t i = 0; i < l->n; i++)
		gpu_expect_filled(&l->g, "restore", l->spans[i].memory, l->spans[i].row_bytes, SEED,
				  l->spans[i].arena_at);
	return took;
}

int main(int argc, char **argv)
{
	struct load l = {.bytes = gpu_argument_gib(argc, argv, 1, 20),
			 .n = (size_t)gpu_argument(argc, argv, 2, "TENSORS", 500, 1, 4096)};
	double ratios[ROUNDS], copy = 1e9;
	make(&l);
	time_copy(&l);
	time_restore(&l);
	for (int i = 0; i < ROUNDS; i++) {
		double of_copy = time_copy(&l);
		ratios[i] = of_copy / time_restore(&l);
		copy = of_copy < copy ? of_copy : copy;
	}
	gpu_figure("restore to the device, verified, out of memory", gpu_quantile(ratios, ROUNDS, 0.5), "of one copy",
		   0.9, true, "one copy: %.1f GB/s", (double)l.bytes / copy / 1e9);
	l.g.ops->arena_detach(l.g.dev, l.arena);
	l.g.ops->close(l.g.dev);
	return 0;
}
