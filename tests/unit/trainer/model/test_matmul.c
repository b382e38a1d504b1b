#include "model/matmul.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"

enum { MAX_SIZE = 300, GUARD = 7 };

static void fill(float *x, size_t n, uint64_t stream)
{
	for (size_t i = 0; i < n; i++)
		x[i] = rng_normal(11, stream, i);
}

static float *new_matrix(size_t n, uint64_t stream)
{
	float *x = calloc(n + 1, sizeof(float));

	cr_assert_not_null(x);
	fill(x, n, stream);
	return x;
}

/* volatile: the product is rounded before it is added, whatever the compiler's flags for the tests are */
static float reference(const float *a, size_t a_step, const float *b, size_t b_step, size_t depth, float start)
{
	float sum = start;

	for (size_t k = 0; k < depth; k++) {
		volatile float product = a[k * a_step] * b[k * b_step];

		sum += product;
	}
	return sum;
}

struct shape {
	size_t rows, cols, depth;
	bool transpose_a, transpose_b, accumulate;
};

static struct shape random_shape(uint64_t i)
{
	return (struct shape){
		.rows = rng_below(3, 0, i, 70),
		.cols = rng_below(3, 1, i, 90),
		.depth = rng_below(3, 2, i, i % 8 ? 80 : MAX_SIZE),
		.transpose_a = i % 3 == 1,
		.transpose_b = i % 3 == 2,
		.accumulate = rng_below(3, 3, i, 2),
	};
}

/* Bits, and that nothing beside C's columns is written. Returns false when the CPU cannot run the kernel. */
static bool agrees(size_t kernel, struct shape s)
{
	size_t lda = (s.transpose_a ? s.rows : s.depth) + 3, ldb = (s.transpose_b ? s.depth : s.cols) + 1;
	size_t ldc = s.cols + GUARD;
	size_t a_row = s.transpose_a ? 1 : lda, a_col = s.transpose_a ? lda : 1;
	size_t b_row = s.transpose_b ? 1 : ldb, b_col = s.transpose_b ? ldb : 1;
	float *a = new_matrix((s.transpose_a ? s.depth : s.rows) * lda, 1);
	float *b = new_matrix((s.transpose_b ? s.cols : s.depth) * ldb, 2);
	float *before = new_matrix(s.rows * ldc, 3), *c = new_matrix(s.rows * ldc, 3);
	const char *name = "";
	int rc = matmul_with(kernel, &name, s.rows, s.cols, s.depth, a, a_row, a_col, b, b_row, b_col, c, ldc,
			     s.accumulate);

	for (size_t i = 0; i < s.rows && rc == 0; i++)
		for (size_t j = 0; j < ldc; j++) {
			float start = s.accumulate || j >= s.cols ? before[i * ldc + j] : 0.0f;
			float want = j < s.cols ? reference(a + i * a_row, a_col, b + j * b_col, b_row, s.depth, start)
						: start;

			cr_assert(memcmp(&want, &c[i * ldc + j], sizeof(want)) == 0,
				  "%s %zux%zux%zu at (%zu,%zu): %a %a", name, s.rows, s.cols, s.depth, i, j,
				  (double)want, (double)c[i * ldc + j]);
		}
	free(c);
	free(before);
	free(b);
	free(a);
	cr_assert(rc == 0 || rc == -ENOTSUP);
	return rc == 0;
}

static void check_kernel(size_t kernel)
{
	if (!agrees(kernel, (struct shape){8, 32, 4, false, false, false}))
		cr_skip_test("this CPU cannot run the kernel");
	for (uint64_t i = 0; i < 120; i++)
		agrees(kernel, random_shape(i));
}

Test(matmul, avx512_kernel_has_the_bits_of_a_plain_loop)
{
	check_kernel(0);
}

Test(matmul, avx2_kernel_has_the_bits_of_a_plain_loop)
{
	check_kernel(1);
}

Test(matmul, generic_kernel_has_the_bits_of_a_plain_loop)
{
	check_kernel(2);
}

Test(matmul, unknown_kernel_is_refused)
{
	cr_assert_eq(matmul_with(99, NULL, 0, 0, 0, NULL, 0, 0, NULL, 0, 0, NULL, 0, false), -ENOENT);
}

/* The public functions on shapes that tell A from A^T and B from B^T. */
Test(matmul, variants_read_their_operands_as_documented)
{
	const float a[6] = {1, 2, 3, 4, 5, 6};     /* [2,3] */
	const float at[6] = {1, 4, 2, 5, 3, 6};    /* [3,2] */
	const float b[6] = {7, 8, 9, 10, 11, 12};  /* [3,2] */
	const float bt[6] = {7, 9, 11, 8, 10, 12}; /* [2,3] */
	const float want[4] = {58, 64, 139, 154};
	float nn[4], tn[4], nt[4];

	matmul_nn(2, 2, 3, a, 3, b, 2, nn, 2, false);
	matmul_tn(2, 2, 3, at, 2, b, 2, tn, 2, false);
	matmul_nt(2, 2, 3, a, 3, bt, 3, nt, 2, false);
	for (int i = 0; i < 4; i++) {
		cr_assert_float_eq(nn[i], want[i], 0);
		cr_assert_float_eq(tn[i], want[i], 0);
		cr_assert_float_eq(nt[i], want[i], 0);
	}
}

Test(matmul, zero_depth_writes_zeros_or_keeps_what_is_accumulated)
{
	float c[4] = {1, 2, 3, 4};

	matmul_nn(2, 2, 0, NULL, 0, NULL, 2, c, 2, true);
	cr_assert_float_eq(c[3], 4, 0);
	matmul_nn(2, 2, 0, NULL, 0, NULL, 2, c, 2, false);
	cr_assert_float_eq(c[0] + c[1] + c[2] + c[3], 0, 0);
}
