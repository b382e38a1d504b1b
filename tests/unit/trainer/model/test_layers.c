#include "model/layers.h"

#include <criterion/criterion.h>
#include <math.h>

#include "common/exponential.h"
#include "common/rng.h"

Test(layers, exponential_is_within_its_error)
{
	for (int i = -8700; i <= 8800; i++) {
		float x = (float)i / 100;
		double want = exp((double)x);

		cr_assert_lt(fabs((double)exponential(x) - want) / want, 3e-7, "at %g", (double)x);
	}
}

Test(layers, exponential_is_finite_and_positive_far_out)
{
	cr_assert(isfinite(exponential(1e30f)) && exponential(1e30f) > 1e37f);
	cr_assert(exponential(-1e30f) > 0 && exponential(-1e30f) < 1e-37f);
	cr_assert(exponential(-INFINITY) > 0);
}

Test(layers, sum_fixed_adds_every_element)
{
	float x[100];

	for (size_t n = 0; n <= 100; n++) {
		for (size_t i = 0; i < n; i++)
			x[i] = (float)(i + 1);
		cr_assert_float_eq(sum_fixed(x, n), (float)(n * (n + 1) / 2), 0);
	}
}

Test(layers, softmax_sums_to_one_and_returns_the_log_of_its_divisor)
{
	float x[37], before[37];
	double total = 0, sum = 0;

	for (size_t i = 0; i < 37; i++)
		before[i] = x[i] = 5 * rng_normal(1, 0, i);
	double divisor = softmax(37, x);
	for (size_t i = 0; i < 37; i++) {
		total += exp((double)before[i]);
		sum += (double)x[i];
	}
	cr_assert_float_eq(sum, 1, 1e-6);
	cr_assert_float_eq(divisor, log(total), 1e-5);
}

Test(layers, layer_norm_gives_mean_0_and_variance_1)
{
	enum { WIDTH = 50 };
	float x[WIDTH], out[WIDTH], weight[WIDTH], bias[WIDTH] = {0}, mean, rstd;
	double sum = 0, squares = 0;

	for (size_t i = 0; i < WIDTH; i++) {
		x[i] = 3 + 2 * rng_normal(2, 0, i);
		weight[i] = 1;
	}
	layer_norm_forward(1, WIDTH, x, weight, bias, out, &mean, &rstd);
	for (size_t i = 0; i < WIDTH; i++) {
		sum += (double)out[i];
		squares += (double)out[i] * (double)out[i];
	}
	cr_assert_float_eq(sum / WIDTH, 0, 1e-5);
	cr_assert_float_eq(squares / WIDTH, 1, 1e-3);
}

Test(layers, gelu_matches_its_formula)
{
	for (int i = -80; i <= 80; i++) {
		float x = (float)i / 10, y;
		double u = 0.7978845608 * ((double)x + 0.044715 * pow((double)x, 3));

		gelu_forward(1, &x, &y);
		cr_assert_float_eq((double)y, 0.5 * (double)x * (1 + tanh(u)), 2e-6, "at %g", (double)x);
	}
}
