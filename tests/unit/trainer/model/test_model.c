#include "model/model.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "model/data.h"
#include "model/optimizer.h"

static const struct model_config small = {.layers = 2, .width = 12, .seq_len = 7, .heads = 3};
static const struct model_config demo = {.layers = 2, .width = 64, .seq_len = 64, .heads = 4};

enum { ROWS = 3, BYTES = ROWS * 7 };

struct text {
	uint8_t input[BYTES], target[BYTES];
};

static struct text random_text(void)
{
	struct text t;

	for (size_t i = 0; i < BYTES; i++) {
		t.input[i] = (uint8_t)rng_below(5, 0, i, 256);
		t.target[i] = (uint8_t)rng_below(5, 1, i, 256);
	}
	return t;
}

/* Every parameter random and large, so that no gradient is hidden behind a zero or a one. */
static struct model *new_small_model(void)
{
	struct model *m;

	cr_assert_eq(model_create(&small, ROWS, &m), 0);
	for (size_t i = 0; i < model_size(m); i++)
		model_params(m)[i] = 0.3f * rng_normal(9, 0, i);
	return m;
}

static double loss_at(struct model *m, const struct text *t)
{
	double loss;

	cr_assert_eq(model_loss(m, ROWS, t->input, t->target, &loss), 0);
	return loss;
}

/* dloss along `direction` in one tensor, by the central difference. */
static double slope(struct model *m, const struct tensor *tensor, const float *direction, float width,
		    const struct text *t)
{
	float *p = model_params(m) + tensor->offset;
	float *saved = malloc(tensor->count * sizeof(float));
	double up, down;

	cr_assert_not_null(saved);
	memcpy(saved, p, tensor->count * sizeof(float));
	for (size_t i = 0; i < tensor->count; i++)
		p[i] = saved[i] + width * direction[i];
	up = loss_at(m, t);
	for (size_t i = 0; i < tensor->count; i++)
		p[i] = saved[i] - width * direction[i];
	down = loss_at(m, t);
	memcpy(p, saved, tensor->count * sizeof(float));
	free(saved);
	return (up - down) / (2 * (double)width);
}

static void check_direction(struct model *m, const struct tensor *tensor, const float *direction, const char *kind,
			    const struct text *t)
{
	const float *g = model_grads(m) + tensor->offset;
	double want = 0, length = 0, got;

	for (size_t i = 0; i < tensor->count; i++) {
		want += (double)g[i] * (double)direction[i];
		length += (double)direction[i] * (double)direction[i];
	}
	cr_assert_gt(length, 0);
	got = slope(m, tensor, direction, (float)(1e-2 / sqrt(length)), t);
	cr_assert_lt(fabs(got - want), 2e-3 * sqrt(length) + 5e-3 * fabs(want), "%s, %s: gradient %g, difference %g",
		     tensor->name, kind, want, got);
}

/* Along the gradient itself (its length), along a random direction, and along single elements. */
static void check_tensor(struct model *m, const struct tensor *tensor, const struct text *t)
{
	float *direction = calloc(tensor->count, sizeof(float));

	cr_assert_not_null(direction);
	memcpy(direction, model_grads(m) + tensor->offset, tensor->count * sizeof(float));
	check_direction(m, tensor, direction, "along the gradient", t);
	for (size_t i = 0; i < tensor->count; i++)
		direction[i] = rng_normal(17, tensor->offset, i);
	check_direction(m, tensor, direction, "along a random direction", t);
	for (uint64_t draw = 0; draw < 6; draw++) {
		memset(direction, 0, tensor->count * sizeof(float));
		direction[rng_below(19, tensor->offset, draw, tensor->count)] = 1;
		check_direction(m, tensor, direction, "one element", t);
	}
	free(direction);
}

Test(model, gradient_of_every_tensor_matches_finite_differences)
{
	struct model *m = new_small_model();
	struct text t = random_text();
	double loss;
	size_t count;
	const struct tensor *tensors = model_tensors(m, &count);

	cr_assert_eq(model_backward(m, ROWS, t.input, t.target, 1.0f, &loss), 0);
	cr_assert_float_eq(loss, loss_at(m, &t), 0);
	for (size_t i = 0; i < count; i++)
		check_tensor(m, &tensors[i], &t);
	model_free(m);
}

Test(model, gradients_have_the_same_bits_in_every_run)
{
	struct model *a = new_small_model(), *b = new_small_model();
	struct text t = random_text();
	double loss;

	model_backward(a, ROWS, t.input, t.target, 0.25f, &loss);
	model_backward(b, 1, t.input, t.target, 1.0f, &loss); /* leaves other activations behind */
	model_backward(b, ROWS, t.input, t.target, 0.25f, &loss);
	cr_assert_arr_eq(model_grads(a), model_grads(b), model_size(a) * sizeof(float));
	model_free(b);
	model_free(a);
}

Test(model, no_rows_give_zero_gradients)
{
	struct model *m = new_small_model();
	double loss = 1;

	memset(model_grads(m), 0x11, model_size(m) * sizeof(float));
	cr_assert_eq(model_backward(m, 0, NULL, NULL, 1.0f, &loss), 0);
	cr_assert_float_eq(loss, 0, 0);
	for (size_t i = 0; i < model_size(m); i++)
		cr_assert_float_eq(model_grads(m)[i], 0, 0);
	model_free(m);
}

Test(model, too_many_rows_are_refused)
{
	struct model *m = new_small_model();
	double loss;

	cr_assert_eq(model_loss(m, ROWS + 1, NULL, NULL, &loss), -EINVAL);
	cr_assert_eq(model_backward(m, ROWS + 1, NULL, NULL, 1, &loss), -EINVAL);
	model_free(m);
}

Test(model, bad_shapes_are_refused)
{
	struct model_config c = demo;
	struct model *m;

	c.heads = 5; /* does not divide 64 */
	cr_assert_eq(model_create(&c, 1, &m), -EINVAL);
	c = demo;
	c.layers = 0;
	cr_assert_eq(model_create(&c, 1, &m), -EINVAL);
	cr_assert_eq(model_create(&demo, 0, &m), -EINVAL);
	cr_assert_eq(model_create(&demo, MODEL_MAX_ROWS + 1, &m), -EINVAL);
}

Test(model, an_untrained_model_guesses_evenly)
{
	struct model *m;
	uint8_t input[64], target[64];
	double loss;

	for (size_t i = 0; i < 64; i++)
		input[i] = target[i] = (uint8_t)(i * 4);
	cr_assert_eq(model_create(&demo, 1, &m), 0);
	model_init(m, 1);
	cr_assert_eq(model_loss(m, 1, input, target, &loss), 0);
	cr_assert_float_eq(loss / 64, log(256), 0.1);
	model_free(m);
}

Test(model, init_depends_on_the_seed_only)
{
	struct model *a, *b;

	cr_assert_eq(model_create(&demo, 1, &a), 0);
	cr_assert_eq(model_create(&demo, 2, &b), 0);
	model_init(a, 7);
	model_init(b, 7);
	cr_assert_arr_eq(model_params(a), model_params(b), model_size(a) * sizeof(float));
	model_init(b, 8);
	cr_assert_arr_neq(model_params(a), model_params(b), model_size(a) * sizeof(float));
	model_free(b);
	model_free(a);
}

/* Trains the default model on the default text; returns the mean loss of the last ten steps. */
static double train(struct model *m, const struct data *data, uint64_t steps)
{
	enum { BATCH = 8, SIZE = BATCH * 64 };
	struct optimizer_config config = {.beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-8f, .weight_decay = 0.1f};
	uint8_t input[SIZE], target[SIZE];
	struct optimizer *o;
	size_t count;
	const struct tensor *tensors = model_tensors(m, &count);
	double loss, tail = 0;

	cr_assert_eq(optimizer_create(&config, tensors, count, 0, 1, &o), 0);
	for (uint64_t step = 1; step <= steps; step++) {
		cr_assert_eq(data_batch(data, 1, step, BATCH, 0, 1, 64, input, target), 0);
		cr_assert_eq(model_backward(m, BATCH, input, target, 1.0f / SIZE, &loss), 0);
		optimizer_step(o, model_params(m), model_grads(m), step, 3e-3f);
		tail += step > steps - 10 ? loss / SIZE / 10 : 0;
	}
	optimizer_free(o);
	return tail;
}

Test(model, loss_falls_in_a_short_training)
{
	struct model *m;
	struct data *data;
	char error[DATA_ERROR_SIZE];

	if (data_load(NULL, 0, &data, error) < 0)
		cr_skip_test("no default text here");
	cr_assert_eq(model_create(&demo, 8, &m), 0);
	model_init(m, 1);
	cr_assert_lt(train(m, data, 150), 3.3);
	model_free(m);
	data_free(data);
}
