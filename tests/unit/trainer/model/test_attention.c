#include "model/attention.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "common/rng.h"

enum { BATCH = 2, TIME = 9, WIDTH = 12, HEADS = 3, COLS = WIDTH / HEADS };

static const struct attention_shape shape = {BATCH, TIME, WIDTH, HEADS};

static float qkv[BATCH * TIME][3][HEADS][COLS], weights[BATCH][HEADS][TIME][TIME], out[BATCH * TIME][HEADS][COLS];

static void fill(void)
{
	float *x = &qkv[0][0][0][0];

	for (size_t i = 0; i < sizeof(qkv) / sizeof(float); i++)
		x[i] = rng_normal(4, 0, i);
}

/* One output, by the definition, in double. */
static double reference(size_t sequence, size_t t, size_t head, size_t col)
{
	double sum = 0, weighted = 0;

	for (size_t past = 0; past <= t; past++) {
		double score = 0;

		for (size_t i = 0; i < COLS; i++)
			score += (double)qkv[sequence * TIME + t][0][head][i] *
				 (double)qkv[sequence * TIME + past][1][head][i];
		sum += exp(score / sqrt(COLS));
		weighted += exp(score / sqrt(COLS)) * (double)qkv[sequence * TIME + past][2][head][col];
	}
	return weighted / sum;
}

Test(attention, matches_its_definition)
{
	fill();
	attention_forward(&shape, &qkv[0][0][0][0], &weights[0][0][0][0], &out[0][0][0]);
	for (size_t row = 0; row < BATCH * TIME; row++)
		for (size_t h = 0; h < HEADS; h++)
			for (size_t c = 0; c < COLS; c++)
				cr_assert_float_eq((double)out[row][h][c], reference(row / TIME, row % TIME, h, c),
						   1e-5);
}

Test(attention, a_position_does_not_see_its_future)
{
	float before[BATCH * TIME][HEADS][COLS];

	fill();
	attention_forward(&shape, &qkv[0][0][0][0], &weights[0][0][0][0], &out[0][0][0]);
	memcpy(before, out, sizeof(out));
	for (size_t part = 0; part < 3; part++)
		qkv[TIME - 1][part][0][0] += 1; /* the last position of the first sequence */
	attention_forward(&shape, &qkv[0][0][0][0], &weights[0][0][0][0], &out[0][0][0]);
	cr_assert_arr_eq(out, before, (TIME - 1) * sizeof(out[0]));
	cr_assert_arr_neq(out[TIME - 1], before[TIME - 1], sizeof(out[0]));
	cr_assert_arr_eq(out[TIME], before[TIME], TIME * sizeof(out[0]));
}
