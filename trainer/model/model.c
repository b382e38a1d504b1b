#include "model/model.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "model/model_internal.h"

/* Page-aligned zeroed floats, so that a checkpoint can pin them. */
static float *alloc_floats(size_t count)
{
	size_t bytes = (count * sizeof(float) + 4095) & ~(size_t)4095;
	float *p = aligned_alloc(4096, bytes);

	if (p)
		memset(p, 0, bytes);
	return p;
}

static int alloc_buffers(struct model *m)
{
	m->tensors = tensor_count(&m->config);
	m->table = calloc(m->tensors, sizeof(*m->table));
	m->blocks = calloc((size_t)m->config.layers, sizeof(*m->blocks));
	if (!m->table || !m->blocks)
		return -ENOMEM;
	m->size = tensor_layout(&m->config, m->table);
	m->params = alloc_floats(m->size);
	m->grads = alloc_floats(m->size);
	m->activations = alloc_floats(activations_carve(m, NULL));
	if (!m->params || !m->grads || !m->activations)
		return -ENOMEM;
	activations_carve(m, m->activations);
	return 0;
}

int model_create(const struct model_config *config, size_t max_rows, struct model **model)
{
	struct model *m;
	int rc = model_config_check(config);

	if (rc < 0 || max_rows < 1 || max_rows > MODEL_MAX_ROWS)
		return -EINVAL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->config = *config;
	m->max_rows = max_rows;
	rc = alloc_buffers(m);
	if (rc < 0) {
		model_free(m);
		return rc;
	}
	*model = m;
	return 0;
}

void model_free(struct model *m)
{
	if (!m)
		return;
	free(m->activations);
	free(m->grads);
	free(m->params);
	free(m->blocks);
	free(m->table);
	free(m);
}

const struct tensor *model_tensors(const struct model *m, size_t *count)
{
	*count = m->tensors;
	return m->table;
}

size_t model_size(const struct model *m)
{
	return m->size;
}

float *model_params(struct model *m)
{
	return m->params;
}

float *model_grads(struct model *m)
{
	return m->grads;
}

static void fill_normal(const struct tensor *table, float *params, size_t index, uint64_t seed, float deviation)
{
	const struct tensor *t = &table[index];

	for (size_t i = 0; i < t->count; i++)
		params[t->offset + i] = deviation * rng_normal(seed, index, i);
}

static void fill_ones(const struct tensor *t, float *params)
{
	for (size_t i = 0; i < t->count; i++)
		params[t->offset + i] = 1.0f;
}

void model_init_into(const struct model_config *config, const struct tensor *table, float *params, uint64_t seed)
{
	const struct tensor *last = &table[tensor_count(config) - 1];
	float deviation = 0.02f;
	/* every block adds two branches to the residual stream; this keeps its variance independent of the depth */
	float branch = deviation / sqrtf(2.0f * (float)config->layers);

	memset(params, 0, (last->offset + last->count) * sizeof(float));
	fill_normal(table, params, TENSOR_TOKEN_WEIGHT, seed, deviation);
	fill_normal(table, params, TENSOR_POSITION_WEIGHT, seed, deviation);
	for (int layer = 0; layer < config->layers; layer++) {
		fill_ones(&table[tensor_of_block(layer, BLOCK_LN1_WEIGHT)], params);
		fill_normal(table, params, tensor_of_block(layer, BLOCK_QKV_WEIGHT), seed, deviation);
		fill_normal(table, params, tensor_of_block(layer, BLOCK_PROJ_WEIGHT), seed, branch);
		fill_ones(&table[tensor_of_block(layer, BLOCK_LN2_WEIGHT)], params);
		fill_normal(table, params, tensor_of_block(layer, BLOCK_UP_WEIGHT), seed, deviation);
		fill_normal(table, params, tensor_of_block(layer, BLOCK_DOWN_WEIGHT), seed, branch);
	}
	fill_ones(&table[tensor_of_last(config, LAST_NORM_WEIGHT)], params);
	fill_normal(table, params, tensor_of_last(config, LAST_HEAD_WEIGHT), seed, deviation);
}

void model_init(struct model *m, uint64_t seed)
{
	model_init_into(&m->config, m->table, m->params, seed);
}
