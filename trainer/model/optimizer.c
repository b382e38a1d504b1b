#include "model/optimizer.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/clones.h"

struct optimizer {
	struct optimizer_config config;
	struct shard_range range;
	float *moment[2];
	struct shard_segment *segments;
	bool *decays; /* per segment: does weight decay apply? */
	size_t segment_count;
};

static bool config_valid(const struct optimizer_config *c)
{
	return c->beta1 >= 0 && c->beta1 < 1 && c->beta2 >= 0 && c->beta2 < 1 && c->epsilon > 0 && c->weight_decay >= 0;
}

/* Page-aligned, as the model's vectors are, so that a checkpoint can pin them; an empty shard gets one page. */
static float *alloc_moment(size_t count)
{
	size_t bytes = (count * sizeof(float) / 4096 + 1) * 4096;
	float *p = aligned_alloc(4096, bytes);

	if (p)
		memset(p, 0, bytes);
	return p;
}

static int alloc_state(struct optimizer *o, const struct tensor *table, size_t count)
{
	o->segments = calloc(count, sizeof(*o->segments));
	o->decays = calloc(count, sizeof(*o->decays));
	o->moment[SHARD_EXP_AVG] = alloc_moment(o->range.end - o->range.begin);
	o->moment[SHARD_EXP_AVG_SQ] = alloc_moment(o->range.end - o->range.begin);
	if (!o->segments || !o->decays || !o->moment[SHARD_EXP_AVG] || !o->moment[SHARD_EXP_AVG_SQ])
		return -ENOMEM;
	o->segment_count = shard_segments(table, count, o->range, o->segments, count);
	for (size_t i = 0; i < o->segment_count; i++)
		o->decays[i] = table[o->segments[i].tensor].dims == 2;
	return 0;
}

int optimizer_create(const struct optimizer_config *config, const struct tensor *table, size_t count, int rank,
		     int world, struct optimizer **optimizer)
{
	struct optimizer *o;
	int rc;

	if (!config_valid(config) || count < 1 || world < 1 || rank < 0 || rank >= world)
		return -EINVAL;
	o = calloc(1, sizeof(*o));
	if (!o)
		return -ENOMEM;
	o->config = *config;
	o->range = shard_range(table[count - 1].offset + table[count - 1].count, rank, world);
	rc = alloc_state(o, table, count);
	if (rc < 0) {
		optimizer_free(o);
		return rc;
	}
	*optimizer = o;
	return 0;
}

void optimizer_free(struct optimizer *o)
{
	if (!o)
		return;
	free(o->moment[SHARD_EXP_AVG_SQ]);
	free(o->moment[SHARD_EXP_AVG]);
	free(o->decays);
	free(o->segments);
	free(o);
}

struct shard_range optimizer_range(const struct optimizer *o)
{
	return o->range;
}

const struct shard_segment *optimizer_segments(const struct optimizer *o, size_t *count)
{
	*count = o->segment_count;
	return o->segments;
}

float *optimizer_moment(struct optimizer *o, enum shard_state state)
{
	return o->moment[state];
}

/* base^exponent by squaring, in double: the C library's pow() may differ between machines in the last bit. */
static double power(double base, uint64_t exponent)
{
	double result = 1;

	for (; exponent; exponent >>= 1, base *= base)
		if (exponent & 1)
			result *= base;
	return result;
}

HOT static void update(size_t n, const struct optimizer_factors *f, float *param, const float *grad, float *exp_avg,
		       float *exp_avg_sq)
{
	const struct optimizer_factors k = *f; /* a copy, which the stores below cannot alias */

	for (size_t i = 0; i < n; i++) {
		float g = grad[i];
		float m = k.beta1 * exp_avg[i] + (1.0f - k.beta1) * g;
		float v = k.beta2 * exp_avg_sq[i] + (1.0f - k.beta2) * (g * g);

		exp_avg[i] = m;
		exp_avg_sq[i] = v;
		param[i] = k.keep * param[i] - k.rate * (m / (sqrtf(v * k.second_unbias) + k.epsilon));
	}
}

struct optimizer_factors optimizer_factors(const struct optimizer_config *c, uint64_t step, float rate, bool decays)
{
	return (struct optimizer_factors){
		.beta1 = c->beta1,
		.beta2 = c->beta2,
		.epsilon = c->epsilon,
		.rate = (float)((double)rate / (1 - power((double)c->beta1, step))),
		.second_unbias = (float)(1 / (1 - power((double)c->beta2, step))),
		.keep = decays ? 1.0f - rate * c->weight_decay : 1.0f,
	};
}

void optimizer_step(struct optimizer *o, float *params, const float *grads, uint64_t step, float rate)
{
	for (size_t i = 0; i < o->segment_count; i++) {
		const struct shard_segment *s = &o->segments[i];
		size_t flat = o->range.begin + s->shard_start;
		struct optimizer_factors f = optimizer_factors(&o->config, step, rate, o->decays[i]);

		update(s->count, &f, params + flat, grads + flat, o->moment[SHARD_EXP_AVG] + s->shard_start,
		       o->moment[SHARD_EXP_AVG_SQ] + s->shard_start);
	}
}
