#include "model/optimizer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"

enum { SIZE = 1000, STEPS = 20 };

static const struct optimizer_config config = {.beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f, .weight_decay = 0.1f};

/* A matrix and a vector, neither cut at a multiple of a shard's grain. */
static const struct tensor table[2] = {
	{.name = "matrix", .dims = 2, .shape = {70, 11}, .offset = 0, .count = 770},
	{.name = "vector", .dims = 1, .shape = {230, 1}, .offset = 770, .count = 230},
};

static void fill_grads(float *grads, uint64_t step)
{
	for (size_t i = 0; i < SIZE; i++)
		grads[i] = 0.1f * rng_normal(2, step, i);
}

static void run(float *params, int world)
{
	float grads[SIZE];
	struct optimizer *o[8];

	for (int rank = 0; rank < world; rank++)
		cr_assert_eq(optimizer_create(&config, table, 2, rank, world, &o[rank]), 0);
	for (size_t i = 0; i < SIZE; i++)
		params[i] = rng_normal(1, 0, i);
	for (uint64_t step = 1; step <= STEPS; step++) {
		fill_grads(grads, step);
		for (int rank = 0; rank < world; rank++)
			optimizer_step(o[rank], params, grads, step, 0.01f);
	}
	for (int rank = 0; rank < world; rank++)
		optimizer_free(o[rank]);
}

/* The textbook, one element, in double. */
static double reference(size_t i, bool decays)
{
	double p = (double)rng_normal(1, 0, i), m = 0, v = 0, rate = (double)0.01f;

	for (uint64_t step = 1; step <= STEPS; step++) {
		double g = (double)(0.1f * rng_normal(2, step, i));

		m = (double)config.beta1 * m + (1 - (double)config.beta1) * g;
		v = (double)config.beta2 * v + (1 - (double)config.beta2) * g * g;
		double m_hat = m / (1 - pow((double)config.beta1, (double)step));
		double v_hat = v / (1 - pow((double)config.beta2, (double)step));
		if (decays)
			p -= rate * (double)config.weight_decay * p;
		p -= rate * m_hat / (sqrt(v_hat) + (double)config.epsilon);
	}
	return p;
}

Test(optimizer, follows_the_textbook_in_double)
{
	float params[SIZE];

	run(params, 1);
	for (size_t i = 0; i < SIZE; i++)
		cr_assert_float_eq((double)params[i], reference(i, i < 770), 3e-6, "element %zu", i);
}

Test(optimizer, shards_have_the_bits_of_the_whole)
{
	float whole[SIZE], sharded[SIZE];

	run(whole, 1);
	for (int world = 2; world <= 8; world++) {
		run(sharded, world);
		cr_assert_arr_eq(whole, sharded, sizeof(whole));
	}
}

Test(optimizer, state_moves_to_another_world_by_segments)
{
	/* what a checkpoint does: the state of 3 ranks, by tensor, becomes the state of 2 ranks */
	float params[SIZE], grads[SIZE], moment[SIZE];
	struct optimizer *o;
	size_t count;

	memset(params, 0, sizeof(params));
	memset(moment, 0, sizeof(moment));
	fill_grads(grads, 1);
	for (int rank = 0; rank < 3; rank++) {
		cr_assert_eq(optimizer_create(&config, table, 2, rank, 3, &o), 0);
		optimizer_step(o, params, grads, 1, 0.01f);
		const struct shard_segment *s = optimizer_segments(o, &count);
		for (size_t i = 0; i < count; i++)
			memcpy(moment + table[s[i].tensor].offset + s[i].tensor_start,
			       optimizer_moment(o, SHARD_EXP_AVG) + s[i].shard_start, s[i].count * sizeof(float));
		optimizer_free(o);
	}
	for (int rank = 0; rank < 2; rank++) {
		cr_assert_eq(optimizer_create(&config, table, 2, rank, 2, &o), 0);
		optimizer_step(o, params, grads, 1, 0.01f);
		struct shard_range r = optimizer_range(o);
		cr_assert_arr_eq(optimizer_moment(o, SHARD_EXP_AVG), moment + r.begin,
				 (r.end - r.begin) * sizeof(float));
		optimizer_free(o);
	}
}

Test(optimizer, an_empty_shard_does_nothing)
{
	static const struct tensor tiny = {.name = "tiny", .dims = 1, .shape = {3, 1}, .count = 3};
	float params[3] = {1, 2, 3}, grads[3] = {1, 1, 1};
	struct optimizer *o;

	cr_assert_eq(optimizer_create(&config, &tiny, 1, 1, 2, &o), 0);
	optimizer_step(o, params, grads, 1, 0.1f);
	cr_assert_float_eq(params[0], 1, 0);
	cr_assert_not_null(optimizer_moment(o, SHARD_EXP_AVG));
	optimizer_free(o);
}

Test(optimizer, bad_settings_are_refused)
{
	struct optimizer_config bad = config;
	struct optimizer *o;

	bad.beta1 = 1;
	cr_assert_eq(optimizer_create(&bad, table, 2, 0, 1, &o), -EINVAL);
	cr_assert_eq(optimizer_create(&config, table, 2, 2, 2, &o), -EINVAL);
	cr_assert_eq(optimizer_create(&config, table, 2, -1, 2, &o), -EINVAL);
}
