#include "fake_blas.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static int left;

static int fake_create(void **handle)
{
	*handle = &left;
	return 0;
}

static int fake_destroy(void *handle)
{
	return handle == &left ? 0 : 1;
}

static int fake_set_stream(void *handle, void *stream)
{
	(void)stream;
	return handle == &left ? 0 : 1;
}

static float widen(uint16_t v)
{
	uint32_t bits = (uint32_t)v << 16;
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static uint16_t narrow(float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Element (i, j) of op(a), which is stored by columns. */
static float element(const uint16_t *a, int op, int ld, int i, int j)
{
	return widen(op == BLAS_PLAIN ? a[(size_t)j * (size_t)ld + (size_t)i] : a[(size_t)i * (size_t)ld + (size_t)j]);
}

static int fake_product(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a,
			int a_type, int lda, const void *b, int b_type, int ldb, const void *beta, void *c, int c_type,
			int ldc, int compute, int algorithm)
{
	if (left == 0)
		return 13;
	left--;
	if (handle != &left || a_type != BLAS_BF16 || b_type != BLAS_BF16 || compute != BLAS_COMPUTE_F32 ||
	    algorithm != BLAS_DEFAULT || *(const float *)alpha != 1 || *(const float *)beta != 0 || ldc < m)
		return 7;
	for (int j = 0; j < n; j++) {
		for (int i = 0; i < m; i++) {
			size_t at = (size_t)j * (size_t)ldc + (size_t)i;
			float sum = 0;

			for (int x = 0; x < k; x++)
				sum += element(a, op_a, lda, i, x) * element(b, op_b, ldb, x, j);
			if (c_type == BLAS_F32)
				((float *)c)[at] = sum;
			else
				((uint16_t *)c)[at] = narrow(sum);
		}
	}
	return 0;
}

static int fake_products(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a,
			 int a_type, int lda, long long a_stride, const void *b, int b_type, int ldb,
			 long long b_stride, const void *beta, void *c, int c_type, int ldc, long long c_stride,
			 int count, int compute, int algorithm)
{
	size_t size = c_type == BLAS_F32 ? 4 : 2;
	int code = 0;

	for (int i = 0; i < count && !code; i++)
		code = fake_product(handle, op_a, op_b, m, n, k, alpha, (const uint16_t *)a + i * a_stride, a_type, lda,
				    (const uint16_t *)b + i * b_stride, b_type, ldb, beta,
				    (char *)c + (size_t)(i * c_stride) * size, c_type, ldc, compute, algorithm);
	return code;
}

static const char *fake_text_of(int code)
{
	return code == 13 ? "execution failed" : "invalid value";
}

const struct blas_table *fake_blas(int fail_at)
{
	static const struct blas_table table = {.create = fake_create,
						.destroy = fake_destroy,
						.set_stream = fake_set_stream,
						.product = fake_product,
						.products = fake_products,
						.text_of = fake_text_of};

	left = fail_at;
	return &table;
}
