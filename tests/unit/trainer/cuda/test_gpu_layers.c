/* The kernels in the emulator, against the layers of the host. Inputs that a kernel takes as bf16 are rounded for both; results
 * differ by the rounding of what is stored as bf16 and by the order of sums. */
#include "cuda/gpu_layers.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "model/attention.h"
#include "model/layers.h"
#include "model/optimizer.h"

static float widen(bf16 v)
{
	uint32_t bits = (uint32_t)v << 16;
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static bf16 narrow(float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return (bf16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Ends where its elements do, so that the address sanitizer sees a step beside it. */
static float *draw(size_t n, uint64_t stream)
{
	float *p = malloc(n * sizeof(*p));

	for (size_t i = 0; i < n; i++)
		p[i] = rng_normal(5, stream, i);
	return p;
}

/* The same numbers as bf16, and rounded in place. */
static bf16 *halve(float *x, size_t n)
{
	bf16 *p = malloc(n * sizeof(*p));

	for (size_t i = 0; i < n; i++) {
		p[i] = narrow(x[i]);
		x[i] = widen(p[i]);
	}
	return p;
}

static void assert_near(const char *what, const float *is, const float *due, size_t n, double tolerance)
{
	for (size_t i = 0; i < n; i++)
		cr_assert(fabs((double)is[i] - (double)due[i]) <= tolerance * (1 + fabs((double)due[i])),
			  "%s, element %zu: %g, not %g", what, i, (double)is[i], (double)due[i]);
}

static void assert_near_bf16(const char *what, const bf16 *is, const float *due, size_t n)
{
	for (size_t i = 0; i < n; i++)
		cr_assert(fabs((double)widen(is[i]) - (double)due[i]) <= 0.005 * (1 + fabs((double)due[i])),
			  "%s, element %zu: %g, not %g", what, i, (double)widen(is[i]), (double)due[i]);
}

Test(gpu_layers, rounds_to_nearest_even_and_keeps_what_is_no_number)
{
	const float from[] = {1.0f, 1.00390625f, 1.01171875f, -2.5f, 0.0f, INFINITY, NAN, 3.3895314e38f};
	bf16 to[8];

	cr_assert_eq(gpu_to_bf16(from, to, 8, NULL), 0);
	cr_expect_eq(widen(to[0]), 1.0f);
	cr_expect_eq(widen(to[1]), 1.0f, "half way, to the even one below");
	cr_expect_eq(widen(to[2]), 1.015625f, "half way, to the even one above");
	cr_expect_eq(widen(to[3]), -2.5f);
	cr_expect_eq(widen(to[4]), 0.0f);
	cr_expect(isinf(widen(to[5])));
	cr_expect(isnan(widen(to[6])));
	cr_expect_eq(gpu_to_bf16(from, to, 0, NULL), 0);
}

/* Widths around the block, rows around the parts of sums. */
static const struct {
	size_t rows, width;
} sizes[] = {{1, 8}, {3, 255}, {64, 256}, {65, 257}, {130, 40}, {7, 600}};

enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static void compare_norm(size_t rows, size_t width)
{
	size_t n = rows * width;
	float *x = draw(n, 1), *weight = draw(width, 2), *bias = draw(width, 3), *dout = draw(n, 4), *dx = draw(n, 5);
	float *due = malloc(n * 4), *mean = malloc(rows * 4), *rstd = malloc(rows * 4), *due_dx = draw(n, 5);
	float *due_mean = malloc(rows * 4), *due_rstd = malloc(rows * 4), *scratch = malloc(GPU_PARTS * width * 4);
	float *dweight = draw(width, 6), *dbias = draw(width, 7), *due_dweight = calloc(width, 4),
	      *due_dbias = calloc(width, 4);
	bf16 *out = malloc(n * 2);

	layer_norm_forward(rows, width, x, weight, bias, due, due_mean, due_rstd);
	cr_assert_eq(gpu_norm(rows, width, x, weight, bias, out, mean, rstd, NULL), 0);
	assert_near_bf16("out", out, due, n);
	assert_near("mean", mean, due_mean, rows, 1e-5);
	assert_near("rstd", rstd, due_rstd, rows, 1e-5);
	layer_norm_backward(rows, width, dout, x, weight, due_mean, due_rstd, due_dx, due_dweight, due_dbias);
	cr_assert_eq(gpu_norm_backward(rows, width, dout, x, weight, mean, rstd, dx, dweight, dbias, scratch, NULL), 0);
	assert_near("dx", dx, due_dx, n, 1e-4);
	assert_near("dweight", dweight, due_dweight, width, 1e-4);
	assert_near("dbias", dbias, due_dbias, width, 1e-4);
	void *all[] = {x,        weight,   bias,    dout,    dx,    due,         mean,      rstd, due_dx,
		       due_mean, due_rstd, scratch, dweight, dbias, due_dweight, due_dbias, out};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		free(all[i]);
}

Test(gpu_layers, norm_is_that_of_the_host)
{
	for (size_t i = 0; i < SIZES; i++)
		compare_norm(sizes[i].rows, sizes[i].width);
}

static void compare_pointwise(size_t rows, size_t width)
{
	size_t n = rows * width;
	float *x = draw(n, 1), *bias = draw(width, 2), *branch = draw(n, 3), *out = malloc(n * 4), *dy = draw(n, 4);
	float *dbias = draw(width, 5), *due_bias = calloc(width, 4), *scratch = malloc(GPU_PARTS * width * 4);
	float *due = malloc(n * 4);
	bf16 *half = halve(x, n), *gelu = malloc(n * 2), *half_dy = halve(dy, n);

	cr_assert_eq(gpu_add_branch(rows, width, x, branch, bias, out, NULL), 0);
	for (size_t i = 0; i < n; i++)
		due[i] = x[i] + branch[i] + bias[i % width];
	assert_near("branch", out, due, n, 1e-6);
	for (size_t i = 0; i < n; i++)
		due_bias[i % width] += dy[i];
	cr_assert_eq(gpu_bias_backward(rows, width, half_dy, dbias, scratch, NULL), 0);
	assert_near("dbias", dbias, due_bias, width, 1e-4);
	gelu_forward(n, x, due);
	cr_assert_eq(gpu_gelu(n, half, gelu, NULL), 0);
	assert_near_bf16("gelu", gelu, due, n);
	gelu_backward(n, x, dy, due);
	cr_assert_eq(gpu_gelu_backward(n, half, half_dy, NULL), 0);
	assert_near_bf16("dgelu", half_dy, due, n);
	cr_assert_eq(gpu_add_bias(rows, width, bias, half, NULL), 0);
	for (size_t i = 0; i < n; i++)
		due[i] = x[i] + bias[i % width];
	assert_near_bf16("bias", half, due, n);
	void *all[] = {x, bias, branch, out, dy, dbias, due_bias, scratch, due, half, gelu, half_dy};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		free(all[i]);
}

Test(gpu_layers, what_goes_element_by_element_is_that_of_the_host)
{
	for (size_t i = 0; i < SIZES; i++)
		compare_pointwise(sizes[i].rows, sizes[i].width);
}

Test(gpu_layers, embedding_is_that_of_the_host)
{
	enum { TIME = 9, WIDTH = 300, ROWS = 4 * TIME };
	uint8_t *input = malloc(ROWS);
	float *token = draw((size_t)256 * WIDTH, 1), *position = draw(TIME * WIDTH, 2), *dout = draw(ROWS * WIDTH, 3);
	float *out = malloc(ROWS * WIDTH * 4), *due = malloc(ROWS * WIDTH * 4);
	float *dtoken = draw((size_t)256 * WIDTH, 4), *due_dtoken = calloc((size_t)256 * WIDTH, 4);
	float *dposition = draw(TIME * WIDTH, 5), *due_dposition = calloc(TIME * WIDTH, 4);

	for (size_t i = 0; i < ROWS; i++)
		input[i] = (uint8_t)(rng_u64(1, 9, i) % 7 * 40); /* some of them often */
	embedding_forward(ROWS, TIME, WIDTH, input, token, position, due);
	cr_assert_eq(gpu_embedding(ROWS, TIME, WIDTH, input, token, position, out, NULL), 0);
	cr_assert_arr_eq(out, due, ROWS * WIDTH * 4);
	embedding_backward(ROWS, TIME, WIDTH, input, dout, due_dtoken, due_dposition);
	cr_assert_eq(gpu_embedding_backward(ROWS, TIME, WIDTH, input, dout, dtoken, dposition, NULL), 0);
	cr_assert_arr_eq(dtoken, due_dtoken, (size_t)256 * WIDTH * 4, "the same order of sums");
	cr_assert_arr_eq(dposition, due_dposition, TIME * WIDTH * 4);
	void *all[] = {input, token, position, dout, out, due, dtoken, due_dtoken, dposition, due_dposition};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		free(all[i]);
}

static void compare_softmax(size_t matrices, size_t time)
{
	size_t n = matrices * time * time;
	float *scores = draw(n, 1), *due = malloc(n * 4), *dweights = draw(n, 2), *due_d = malloc(n * 4);
	bf16 *weights = malloc(n * 2), *dscores = malloc(n * 2);

	for (size_t r = 0; r < matrices * time; r++) {
		size_t known = r % time + 1;

		for (size_t i = 0; i < time; i++)
			due[r * time + i] = i < known ? 0.5f * scores[r * time + i] : 0;
		softmax(known, due + r * time);
	}
	cr_assert_eq(gpu_softmax(matrices, time, 0.5f, scores, weights, NULL), 0);
	assert_near_bf16("weights", weights, due, n);
	for (size_t r = 0; r < matrices * time; r++) {
		double sum = 0;

		for (size_t i = 0; i < time; i++)
			sum += (double)widen(weights[r * time + i]) * (double)dweights[r * time + i];
		for (size_t i = 0; i < time; i++)
			due_d[r * time + i] = (float)((double)widen(weights[r * time + i]) *
						      ((double)dweights[r * time + i] - sum) * 0.5);
	}
	cr_assert_eq(gpu_softmax_backward(matrices, time, 0.5f, weights, dweights, dscores, NULL), 0);
	assert_near_bf16("dscores", dscores, due_d, n);
	free(scores);
	free(due);
	free(dweights);
	free(due_d);
	free(weights);
	free(dscores);
}

Test(gpu_layers, softmax_sees_no_future)
{
	compare_softmax(1, 1);
	compare_softmax(3, 17);
	compare_softmax(1, 300);
}

Test(gpu_layers, cross_entropy_is_that_of_the_host)
{
	enum { ROWS = 5 };
	float *logits = draw(ROWS * 256, 1), *due = draw(ROWS * 256, 1), losses[ROWS];
	uint8_t target[ROWS] = {0, 255, 7, 7, 128};
	bf16 *dlogits = malloc(ROWS * 256 * 2);
	double sum = 0, due_sum = cross_entropy(ROWS, 256, due, target, 0.25f);

	cr_assert_eq(gpu_cross_entropy(ROWS, logits, target, 0.25f, dlogits, losses, NULL), 0);
	for (int r = 0; r < ROWS; r++)
		sum += (double)losses[r];
	cr_assert_float_eq(sum, due_sum, 1e-4);
	assert_near_bf16("dlogits", dlogits, due, ROWS * 256);
	logits[3] = NAN;
	cr_assert_eq(gpu_cross_entropy(1, logits, target, 0.25f, dlogits, losses, NULL), 0);
	cr_assert(isnan(losses[0]), "what is no number is not hidden");
	free(logits);
	free(due);
	free(dlogits);
}

Test(gpu_layers, adam_is_that_of_the_host)
{
	enum { COUNT = 1000 };
	struct tensor table = {.name = "w", .dims = 1, .shape = {COUNT, 1}, .count = COUNT};
	struct optimizer_config config = {.beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-8f};
	float *param = draw(COUNT, 1), *due = draw(COUNT, 1), *grad = draw(COUNT, 2), m[COUNT] = {0}, v[COUNT] = {0};
	struct optimizer *o;

	cr_assert_eq(optimizer_create(&config, &table, 1, 0, 1, &o), 0);
	for (uint64_t step = 1; step < 4; step++) {
		struct gpu_adam f = {.beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-8f, .keep = 1};

		f.rate = (float)(0.01f / (1 - pow((double)0.9f, (double)step)));
		f.second_unbias = (float)(1 / (1 - pow((double)0.99f, (double)step)));
		optimizer_step(o, due, grad, step, 0.01f);
		cr_assert_eq(gpu_adam(COUNT, &f, param, grad, m, v, NULL), 0);
		assert_near("param", param, due, COUNT, 1e-6);
		assert_near("exp_avg", m, optimizer_moment(o, SHARD_EXP_AVG), COUNT, 1e-6);
		assert_near("exp_avg_sq", v, optimizer_moment(o, SHARD_EXP_AVG_SQ), COUNT, 1e-6);
	}
	optimizer_free(o);
	free(param);
	free(due);
	free(grad);
}
