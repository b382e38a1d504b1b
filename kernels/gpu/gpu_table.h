/* Spans as the kernels read them. */
#ifndef CKPT_KERNELS_GPU_TABLE_H
#define CKPT_KERNELS_GPU_TABLE_H

#include "gpu_kernels.h"
#include "span/span.h"

/* The span of a list. */
struct gpu_span gpu_span_of(const struct span *simple);
/* All of them; before has room for n + 1. Returns the number of units. */
uint64_t gpu_table_fill(const struct span *simple, size_t n, struct gpu_span *spans, uint64_t *before);

#endif
