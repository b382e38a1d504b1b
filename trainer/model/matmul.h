/*
 * Single-precision matrix products, row-major, for one thread.
 *
 * Order of summation: every element of C is the sum over k = 0, 1, ... of A(i,k) * B(k,j), added one
 * after the other in that order, each product rounded before it is added (no fused multiply-add).
 * The width of the vectors changes how many elements of C advance together, never the order inside one,
 * so the bits are the same on every CPU type and from run to run. (The file must be compiled with
 * -ffp-contract=off; trainer/CMakeLists.txt does so, and test_matmul.c compares bits with a plain loop.)
 *
 * Common to the three functions: `rows` and `cols` are the shape of C, `depth` the length of the sums;
 * ld* are the distances, in elements, between the starts of consecutive rows as stored, at least the
 * stored row's length. With `accumulate` the product is added to C (the sum starts from C's value),
 * else C is overwritten and not read. C must not overlap A or B. Any size may be 0: a depth of 0 is a
 * product of zeros. The functions cannot fail, allocate nothing (34 KiB of stack) and are thread-safe.
 */
#ifndef CKPT_TRAINER_MATMUL_H
#define CKPT_TRAINER_MATMUL_H

#include <stdbool.h>
#include <stddef.h>

/* C[rows,cols] = A[rows,depth] * B[depth,cols] */
void matmul_nn(size_t rows, size_t cols, size_t depth, const float *a, size_t lda, const float *b, size_t ldb, float *c,
	       size_t ldc, bool accumulate);

/* C[rows,cols] = A^T * B, where A is stored as [depth,rows] and B as [depth,cols] */
void matmul_tn(size_t rows, size_t cols, size_t depth, const float *a, size_t lda, const float *b, size_t ldb, float *c,
	       size_t ldc, bool accumulate);

/* C[rows,cols] = A * B^T, where A is stored as [rows,depth] and B as [cols,depth] */
void matmul_nt(size_t rows, size_t cols, size_t depth, const float *a, size_t lda, const float *b, size_t ldb, float *c,
	       size_t ldc, bool accumulate);

/*
 * Runs one given kernel, for tests and benchmarks: C = A * B with A(i,k) = a[i * a_row + k * a_col] and
 * B(k,j) = b[k * b_row + j * b_col], where b_row or b_col is 1. Kernels are numbered from 0, fastest first;
 * `name`, if not NULL, receives the kernel's name (a static string).
 * Returns 0, -ENOTSUP when this CPU cannot run the kernel, -ENOENT when there is no such kernel.
 */
int matmul_with(size_t kernel, const char **name, size_t rows, size_t cols, size_t depth, const float *a, size_t a_row,
		size_t a_col, const float *b, size_t b_row, size_t b_col, float *c, size_t ldc, bool accumulate);

#endif
