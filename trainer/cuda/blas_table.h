/*
 * The calls of cuBLAS that the model needs, as a table with plain types: the library, taken at run time, or the fake of the tests. So the
 * program starts without it, and without a driver. What stands here is its C interface as it has been since version 11. Matrices are
 * stored by columns. Calls return 0 or the vendor's code.
 */
#ifndef CKPT_TRAINER_BLAS_TABLE_H
#define CKPT_TRAINER_BLAS_TABLE_H

enum { BLAS_PLAIN = 0, BLAS_TRANSPOSED = 1 }; /* cublasOperation_t */
enum { BLAS_F32 = 0, BLAS_BF16 = 14 };        /* cudaDataType */
enum { BLAS_COMPUTE_F32 = 68 };               /* cublasComputeType_t */
enum { BLAS_DEFAULT = -1 };                   /* cublasGemmAlgo_t */

struct blas_table {
	int (*create)(void **handle);
	int (*destroy)(void *handle);
	int (*set_stream)(void *handle, void *stream);
	int (*product)(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a,
		       int a_type, int lda, const void *b, int b_type, int ldb, const void *beta, void *c, int c_type,
		       int ldc, int compute, int algorithm);
	int (*products)(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a,
			int a_type, int lda, long long a_stride, const void *b, int b_type, int ldb, long long b_stride,
			const void *beta, void *c, int c_type, int ldc, long long c_stride, int count, int compute,
			int algorithm);
	const char *(*text_of)(int code);
};

enum { BLAS_WHY_SIZE = 256 };

/*
 * The library's calls, loaded once and never let go: libcublas.so.13 or .12, or the file that CKPT_CUBLAS_LIBRARY names. 0 and the table;
 * -ENOENT: there is none; -ENOSYS: it lacks a call. `why` names it.
 */
int blas_table_load(const struct blas_table **table, char why[BLAS_WHY_SIZE]);

#endif
