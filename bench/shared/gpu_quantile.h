/* Quantiles of what was measured. */
#ifndef CKPT_BENCH_GPU_QUANTILE_H
#define CKPT_BENCH_GPU_QUANTILE_H

#include <stddef.h>

/* The smallest of n values (at least one; they are sorted) that the share q of them does not exceed. */
double gpu_quantile(double *values, size_t n, double q);

#endif
