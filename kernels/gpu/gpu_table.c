#include "gpu_table.h"

#include "format/tensor/digest.h"

#include <assert.h>

static_assert((int)GPU_NDIM_MAX == (int)SPAN_NDIM_MAX && (unsigned)GPU_LEAF == LEAF_SIZE, "bounds agree");

enum { GRAIN_MAX = 16 };

static uint32_t grain_of(const struct span *span)
{
	uint64_t all = (uint64_t)(uintptr_t)span->memory | span->row_bytes | GRAIN_MAX;
	for (uint32_t d = 0; d < span->ndim; d++)
		all |= (uint64_t)span->stride[d];
	return (uint32_t)(all & -all);
}

struct gpu_span gpu_span_of(const struct span *simple)
{
	struct gpu_span out = {.memory = simple->memory,
			       .bytes = span_bytes(simple),
			       .skip = simple->skip,
			       .arena_at = simple->arena_at,
			       .row_bytes = simple->row_bytes,
			       .first_leaf = simple->first_leaf,
			       .ndim = simple->ndim,
			       .grain = grain_of(simple)};
	for (uint32_t d = 0; d < simple->ndim; d++) {
		out.count[d] = simple->count[d];
		out.stride[d] = simple->stride[d];
	}
	return out;
}

uint64_t gpu_table_fill(const struct span *simple, size_t n, struct gpu_span *spans, uint64_t *before)
{
	uint64_t units = 0;
	for (size_t i = 0; i < n; i++) {
		spans[i] = gpu_span_of(&simple[i]);
		before[i] = units;
		units += leaf_count(spans[i].bytes);
	}
	before[n] = units;
	return units;
}
