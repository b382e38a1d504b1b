/* cuBLAS for tests, on host memory: products of bf16 matrices with sums in single precision, in plain loops. */
#ifndef CKPT_TESTS_FAKE_BLAS_H
#define CKPT_TESTS_FAKE_BLAS_H

#include "cuda/blas_table.h"

/* `fail_at`: so many products succeed, then each fails; below 0: all succeed. */
const struct blas_table *fake_blas(int fail_at);

#endif
