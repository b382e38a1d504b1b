/* The whole model of the GPU, kernels in the emulator and products by a fake cuBLAS, against that of the host. */
#include "cuda/gpu_model.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "cuda/gpu_layers.h"
#include "model/optimizer.h"
#include "trainer/fake_blas.h"

enum { ROWS = 3, TIME = 8 };

static const struct model_config config = {.layers = 2, .width = 16, .seq_len = TIME, .heads = 2};

static uint8_t input[ROWS * TIME], target[ROWS * TIME];

static void draw_rows(uint64_t step)
{
	for (size_t i = 0; i < sizeof(input); i++) {
		input[i] = (uint8_t)rng_below(3, step, i, 60);
		target[i] = (uint8_t)(input[i] + 1);
	}
}

static struct model *make_host(void)
{
	struct model *host;

	cr_assert_eq(model_create(&config, ROWS, &host), 0);
	model_init(host, 11);
	return host;
}

static struct gpu_model *make_gpu(struct model *host, bool recompute, const struct blas_table *blas)
{
	struct gpu_model_setup setup = {.config = config,
					.max_rows = ROWS,
					.room = model_size(host) + 40,
					.recompute = recompute,
					.blas = blas};
	struct gpu_model *gpu;

	cr_assert_eq(gpu_model_create(&setup, &gpu), 0, "%s", gpu ? gpu_model_why(gpu) : "");
	memcpy(gpu_model_params(gpu), model_params(host), model_size(host) * sizeof(float));
	return gpu;
}

/* How far apart two vectors are, against their length. */
static double distance(const float *a, const float *b, size_t n)
{
	double apart = 0, length = 0;

	for (size_t i = 0; i < n; i++) {
		apart += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
		length += (double)b[i] * (double)b[i];
	}
	return length > 0 ? sqrt(apart / length) : sqrt(apart);
}

Test(gpu_model, gradients_of_every_tensor_are_near_those_of_the_host)
{
	struct model *host = make_host();
	struct gpu_model *gpu = make_gpu(host, false, fake_blas(-1));
	size_t count;
	const struct tensor *table = model_tensors(host, &count);
	double loss;

	for (size_t i = 0; i < model_size(host); i++) /* bias and norms, too, have something to do */
		model_params(host)[i] += 0.02f * rng_normal(2, 0, i);
	memcpy(gpu_model_params(gpu), model_params(host), model_size(host) * sizeof(float));
	draw_rows(0);
	cr_assert_eq(model_backward(host, ROWS, input, target, 1.0f / (ROWS * TIME), &loss), 0);
	cr_assert_eq(gpu_model_backward(gpu, ROWS, input, target, 1.0f / (ROWS * TIME)), 0);
	cr_assert_float_eq(gpu_model_loss(gpu), loss, 0.002 * loss);
	for (size_t i = 0; i < count; i++) {
		double apart = distance(gpu_model_grads(gpu) + table[i].offset, model_grads(host) + table[i].offset,
					table[i].count);

		cr_assert_lt(apart, 0.03, "%s is %g apart", table[i].name, apart);
	}
	for (size_t i = model_size(host); i < model_size(host) + 40; i++)
		cr_assert_eq(gpu_model_grads(gpu)[i], 0, "what is behind the tensors stays zero");
	gpu_model_free(gpu);
	model_free(host);
}

Test(gpu_model, recomputation_changes_no_bit)
{
	struct model *host = make_host();
	struct gpu_model *keeps = make_gpu(host, false, fake_blas(-1)), *again = make_gpu(host, true, fake_blas(-1));

	draw_rows(1);
	cr_assert_eq(gpu_model_backward(keeps, ROWS, input, target, 0.1f), 0);
	cr_assert_eq(gpu_model_backward(again, ROWS, input, target, 0.1f), 0);
	cr_assert_eq(gpu_model_loss(keeps), gpu_model_loss(again));
	cr_assert_arr_eq(gpu_model_grads(keeps), gpu_model_grads(again), model_size(host) * sizeof(float));
	gpu_model_free(keeps);
	gpu_model_free(again);
	model_free(host);
}

Test(gpu_model, fewer_rows_and_none_are_fine)
{
	struct model *host = make_host();
	struct gpu_model *gpu = make_gpu(host, false, fake_blas(-1));
	double loss;

	draw_rows(2);
	cr_assert_eq(gpu_model_backward(gpu, ROWS, input, target, 0.1f), 0);
	cr_assert_eq(model_backward(host, 1, input, target, 0.1f, &loss), 0);
	cr_assert_eq(gpu_model_backward(gpu, 1, input, target, 0.1f), 0);
	cr_assert_float_eq(gpu_model_loss(gpu), loss, 0.002 * loss);
	cr_assert_lt(distance(gpu_model_grads(gpu), model_grads(host), model_size(host)), 0.03);
	cr_assert_eq(gpu_model_backward(gpu, 0, input, target, 0.1f), 0);
	cr_assert_eq(gpu_model_loss(gpu), 0);
	for (size_t i = 0; i < model_size(host); i++)
		cr_assert_eq(gpu_model_grads(gpu)[i], 0);
	cr_assert_eq(gpu_model_backward(gpu, ROWS + 1, input, target, 0.1f), -EINVAL);
	gpu_model_free(gpu);
	model_free(host);
}

Test(gpu_model, a_product_that_fails_is_told)
{
	struct model *host = make_host();
	struct gpu_model *gpu = make_gpu(host, false, fake_blas(5));

	draw_rows(3);
	cr_assert_eq(gpu_model_backward(gpu, ROWS, input, target, 0.1f), -EIO);
	cr_assert_str_eq(gpu_model_why(gpu), "cuBLAS: execution failed");
	gpu_model_free(gpu);
	model_free(host);
}

/* Both optimise for some steps on the same rows. */
Test(gpu_model, loss_curves_agree)
{
	struct model *host = make_host();
	struct gpu_model *gpu = make_gpu(host, false, fake_blas(-1));
	size_t count, n = model_size(host);
	const struct tensor *table = model_tensors(host, &count);
	struct optimizer_config adamw = {.beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-8f};
	struct optimizer *o;
	float *m = calloc(n, sizeof(*m)), *v = calloc(n, sizeof(*v));
	double loss = 0, first = 0;

	cr_assert_eq(optimizer_create(&adamw, table, count, 0, 1, &o), 0);
	for (uint64_t step = 1; step <= 5; step++) {
		struct gpu_adam f = {.beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-8f, .keep = 1};

		f.rate = (float)(0.01 / (1 - pow((double)f.beta1, (double)step)));
		f.second_unbias = (float)(1 / (1 - pow((double)f.beta2, (double)step)));
		draw_rows(0);
		cr_assert_eq(model_backward(host, 1, input, target, 1.0f / TIME, &loss), 0);
		cr_assert_eq(gpu_model_backward(gpu, 1, input, target, 1.0f / TIME), 0);
		cr_assert_float_eq(gpu_model_loss(gpu), loss, 0.02 * loss, "step %d: %g, not %g", (int)step,
				   gpu_model_loss(gpu), loss);
		first = step == 1 ? loss : first;
		optimizer_step(o, model_params(host), model_grads(host), step, 0.01f);
		cr_assert_eq(gpu_adam(n, &f, gpu_model_params(gpu), gpu_model_grads(gpu), m, v, NULL), 0);
	}
	cr_assert_lt(loss, 0.95 * first, "it learns: %g after %g", loss, first);
	free(m);
	free(v);
	optimizer_free(o);
	gpu_model_free(gpu);
	model_free(host);
}
