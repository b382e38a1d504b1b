#include "model/model_internal.h"

/* Advances *used by count floats, rounded to a cache line. With base NULL it only measures. */
static float *carve(float *base, size_t *used, size_t count)
{
	float *at = base ? base + *used : NULL;

	*used += (count + 15) & ~(size_t)15;
	return at;
}

static void carve_block(struct model *m, float *base, size_t *used, struct block *b)
{
	size_t time = (size_t)m->config.seq_len, rows = m->max_rows * time, plane = rows * (size_t)m->config.width;

	b->x = carve(base, used, plane);
	b->ln1 = carve(base, used, plane);
	b->ln1_mean = carve(base, used, rows);
	b->ln1_rstd = carve(base, used, rows);
	b->qkv = carve(base, used, 3 * plane);
	b->weights = carve(base, used, rows * time * (size_t)m->config.heads);
	b->attended = carve(base, used, plane);
	b->middle = carve(base, used, plane);
	b->ln2 = carve(base, used, plane);
	b->ln2_mean = carve(base, used, rows);
	b->ln2_rstd = carve(base, used, rows);
	b->up = carve(base, used, 4 * plane);
	b->gelu = carve(base, used, 4 * plane);
}

size_t activations_carve(struct model *m, float *base)
{
	size_t time = (size_t)m->config.seq_len, rows = m->max_rows * time, plane = rows * (size_t)m->config.width;
	size_t used = 0;

	for (int layer = 0; layer < m->config.layers; layer++)
		carve_block(m, base, &used, &m->blocks[layer]);
	m->x = carve(base, &used, plane);
	m->norm = carve(base, &used, plane);
	m->norm_mean = carve(base, &used, rows);
	m->norm_rstd = carve(base, &used, rows);
	m->logits = carve(base, &used, rows * MODEL_VOCAB);
	m->branch = carve(base, &used, plane);
	m->dx = carve(base, &used, plane);
	m->dbranch = carve(base, &used, plane);
	m->dwide = carve(base, &used, 4 * plane);
	m->dscores = carve(base, &used, time * time);
	return used;
}
