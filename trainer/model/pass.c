#include <errno.h>
#include <string.h>

#include "model/attention.h"
#include "model/layers.h"
#include "model/model_internal.h"

static float *param(const struct model *m, size_t tensor)
{
	return m->params + m->table[tensor].offset;
}

static float *grad(const struct model *m, size_t tensor)
{
	return m->grads + m->table[tensor].offset;
}

static float *block_param(const struct model *m, int layer, enum block_tensor part)
{
	return param(m, tensor_of_block(layer, part));
}

static float *block_grad(const struct model *m, int layer, enum block_tensor part)
{
	return grad(m, tensor_of_block(layer, part));
}

static void add(size_t n, const float *a, const float *b, float *sum)
{
	for (size_t i = 0; i < n; i++)
		sum[i] = a[i] + b[i];
}

/* The sizes that every layer call needs, in elements. */
struct size {
	size_t rows, width, time, plane;
	struct attention_shape attention;
};

static struct size pass_size(const struct model *m, size_t batch)
{
	size_t time = (size_t)m->config.seq_len, width = (size_t)m->config.width;

	return (struct size){
		.rows = batch * time,
		.width = width,
		.time = time,
		.plane = batch * time * width,
		.attention = {batch, time, width, (size_t)m->config.heads},
	};
}

static void attention_branch(struct model *m, const struct size *s, int layer)
{
	struct block *b = &m->blocks[layer];

	layer_norm_forward(s->rows, s->width, b->x, block_param(m, layer, BLOCK_LN1_WEIGHT),
			   block_param(m, layer, BLOCK_LN1_BIAS), b->ln1, b->ln1_mean, b->ln1_rstd);
	linear_forward(s->rows, s->width, 3 * s->width, b->ln1, block_param(m, layer, BLOCK_QKV_WEIGHT),
		       block_param(m, layer, BLOCK_QKV_BIAS), b->qkv);
	attention_forward(&s->attention, b->qkv, b->weights, b->attended);
	linear_forward(s->rows, s->width, s->width, b->attended, block_param(m, layer, BLOCK_PROJ_WEIGHT),
		       block_param(m, layer, BLOCK_PROJ_BIAS), m->branch);
	add(s->plane, b->x, m->branch, b->middle);
}

static void mlp_branch(struct model *m, const struct size *s, int layer, float *out)
{
	struct block *b = &m->blocks[layer];

	layer_norm_forward(s->rows, s->width, b->middle, block_param(m, layer, BLOCK_LN2_WEIGHT),
			   block_param(m, layer, BLOCK_LN2_BIAS), b->ln2, b->ln2_mean, b->ln2_rstd);
	linear_forward(s->rows, s->width, 4 * s->width, b->ln2, block_param(m, layer, BLOCK_UP_WEIGHT),
		       block_param(m, layer, BLOCK_UP_BIAS), b->up);
	gelu_forward(4 * s->plane, b->up, b->gelu);
	linear_forward(s->rows, 4 * s->width, s->width, b->gelu, block_param(m, layer, BLOCK_DOWN_WEIGHT),
		       block_param(m, layer, BLOCK_DOWN_BIAS), m->branch);
	add(s->plane, b->middle, m->branch, out);
}

/* Leaves the logits in m->logits. */
static void forward(struct model *m, const struct size *s, const uint8_t *input)
{
	int layers = m->config.layers;

	embedding_forward(s->rows, s->time, s->width, input, param(m, TENSOR_TOKEN_WEIGHT),
			  param(m, TENSOR_POSITION_WEIGHT), m->blocks[0].x);
	for (int layer = 0; layer < layers; layer++) {
		attention_branch(m, s, layer);
		mlp_branch(m, s, layer, layer + 1 < layers ? m->blocks[layer + 1].x : m->x);
	}
	layer_norm_forward(s->rows, s->width, m->x, param(m, tensor_of_last(&m->config, LAST_NORM_WEIGHT)),
			   param(m, tensor_of_last(&m->config, LAST_NORM_BIAS)), m->norm, m->norm_mean, m->norm_rstd);
	linear_forward(s->rows, s->width, MODEL_VOCAB, m->norm, param(m, tensor_of_last(&m->config, LAST_HEAD_WEIGHT)),
		       NULL, m->logits);
}

/* m->dx holds the gradient of the block's output on entry, and of its middle on return. */
static void mlp_branch_backward(struct model *m, const struct size *s, int layer)
{
	struct block *b = &m->blocks[layer];

	linear_backward(s->rows, 4 * s->width, s->width, m->dx, b->gelu, block_param(m, layer, BLOCK_DOWN_WEIGHT),
			m->dwide, block_grad(m, layer, BLOCK_DOWN_WEIGHT), block_grad(m, layer, BLOCK_DOWN_BIAS));
	gelu_backward(4 * s->plane, b->up, m->dwide, m->dwide);
	linear_backward(s->rows, s->width, 4 * s->width, m->dwide, b->ln2, block_param(m, layer, BLOCK_UP_WEIGHT),
			m->dbranch, block_grad(m, layer, BLOCK_UP_WEIGHT), block_grad(m, layer, BLOCK_UP_BIAS));
	layer_norm_backward(s->rows, s->width, m->dbranch, b->middle, block_param(m, layer, BLOCK_LN2_WEIGHT),
			    b->ln2_mean, b->ln2_rstd, m->dx, block_grad(m, layer, BLOCK_LN2_WEIGHT),
			    block_grad(m, layer, BLOCK_LN2_BIAS));
}

/* m->dx holds the gradient of the block's middle on entry, and of its input on return. */
static void attention_branch_backward(struct model *m, const struct size *s, int layer)
{
	struct block *b = &m->blocks[layer];

	linear_backward(s->rows, s->width, s->width, m->dx, b->attended, block_param(m, layer, BLOCK_PROJ_WEIGHT),
			m->dbranch, block_grad(m, layer, BLOCK_PROJ_WEIGHT), block_grad(m, layer, BLOCK_PROJ_BIAS));
	attention_backward(&s->attention, b->qkv, b->weights, m->dbranch, m->dwide, m->dscores);
	linear_backward(s->rows, s->width, 3 * s->width, m->dwide, b->ln1, block_param(m, layer, BLOCK_QKV_WEIGHT),
			m->dbranch, block_grad(m, layer, BLOCK_QKV_WEIGHT), block_grad(m, layer, BLOCK_QKV_BIAS));
	layer_norm_backward(s->rows, s->width, m->dbranch, b->x, block_param(m, layer, BLOCK_LN1_WEIGHT), b->ln1_mean,
			    b->ln1_rstd, m->dx, block_grad(m, layer, BLOCK_LN1_WEIGHT),
			    block_grad(m, layer, BLOCK_LN1_BIAS));
}

/* From the gradient of the logits, in m->logits, to those of all parameters. */
static void backward(struct model *m, const struct size *s, const uint8_t *input)
{
	size_t norm_weight = tensor_of_last(&m->config, LAST_NORM_WEIGHT);
	size_t norm_bias = tensor_of_last(&m->config, LAST_NORM_BIAS);
	size_t head = tensor_of_last(&m->config, LAST_HEAD_WEIGHT);

	memset(m->grads, 0, m->size * sizeof(float));
	memset(m->dx, 0, s->plane * sizeof(float));
	linear_backward(s->rows, s->width, MODEL_VOCAB, m->logits, m->norm, param(m, head), m->dbranch, grad(m, head),
			NULL);
	layer_norm_backward(s->rows, s->width, m->dbranch, m->x, param(m, norm_weight), m->norm_mean, m->norm_rstd,
			    m->dx, grad(m, norm_weight), grad(m, norm_bias));
	for (int layer = m->config.layers - 1; layer >= 0; layer--) {
		mlp_branch_backward(m, s, layer);
		attention_branch_backward(m, s, layer);
	}
	embedding_backward(s->rows, s->time, s->width, input, m->dx, grad(m, TENSOR_TOKEN_WEIGHT),
			   grad(m, TENSOR_POSITION_WEIGHT));
}

int model_loss(struct model *m, size_t rows, const uint8_t *input, const uint8_t *target, double *loss)
{
	struct size size = pass_size(m, rows);

	if (rows > m->max_rows)
		return -EINVAL;
	forward(m, &size, input);
	*loss = cross_entropy(size.rows, MODEL_VOCAB, m->logits, target, 0.0f);
	return 0;
}

int model_backward(struct model *m, size_t rows, const uint8_t *input, const uint8_t *target, float scale, double *loss)
{
	struct size size = pass_size(m, rows);

	if (rows > m->max_rows)
		return -EINVAL;
	forward(m, &size, input);
	*loss = cross_entropy(size.rows, MODEL_VOCAB, m->logits, target, scale);
	backward(m, &size, input);
	return 0;
}
