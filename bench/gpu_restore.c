/* A restore to the device, each leaf checked there, against one large copy out of pinned memory. For scripts/gpu-check.
 *
 *   bench_gpu_restore [GIB [TENSORS]] */
#include "shared/gpu.h"

#include "base/bytes.h"
#include "format/tensor/digest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 7 };

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

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

int main(int argc, char **argv)
{
	struct gpu g = gpu_open();
	struct err err;
	size_t bytes = (size_t)((argc > 1 ? strtod(argv[1], NULL) : 20) * 1024) << 20,
	       n = argc > 2 ? strtoul(argv[2], NULL, 10) : 500;
	double ratios[ROUNDS], copy = 1e9;
	uint64_t nleaves;
	char *memory = gpu_memory(&g, bytes), *arena = gpu_arena(bytes);
	struct span *spans = make_spans(memory, &bytes, n, &nleaves);
	uint64_t *leaves = malloc(nleaves * 8);
	for (size_t i = 0; i < bytes; i += 4096)
		memcpy(arena + i, &i, sizeof(i));
	for (size_t i = 0; i < n; i++)
		digest_leaves(arena + spans[i].arena_at, spans[i].row_bytes, leaves + spans[i].first_leaf);
	gpu_must(g.ops->arena_attach(g.dev, arena, align_up(bytes, 4096), &err), &err, "pinning the arena");
	for (int i = -1; i < ROUNDS; i++) {
		double began = gpu_seconds();
		gpu_check(&g, g.rt->copy(g.rt, memory, arena, bytes, g.stream), "copying");
		gpu_drain(&g, g.stream);
		double copied = gpu_seconds();
		gpu_must(g.ops->restore(g.dev, arena, spans, n, leaves, g.stream, NULL, &err), &err, "restore");
		double restored = gpu_seconds();
		if (i < 0)
			continue;
		ratios[i] = (copied - began) / (restored - copied);
		copy = copied - began < copy ? copied - began : copy;
	}
	qsort(ratios, ROUNDS, sizeof(ratios[0]), ascending);
	gpu_figure("restore to the device, verified, out of memory", ratios[ROUNDS / 2], "of one copy", 0.9, true,
		   "one copy: %.1f GB/s", (double)bytes / copy / 1e9);
	g.ops->arena_detach(g.dev, arena);
	g.ops->close(g.dev);
	return 0;
}
