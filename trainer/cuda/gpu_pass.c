/* Forward and backward, as in pass.c. The first code that is not 0 is kept; what is put on the stream after it does no harm. */
#include <math.h>
#include <stdio.h>

#include "gpu_memory.h"
#include "gpu_model_internal.h"

struct pass {
	struct gpu_model *m;
	void *stream;
	size_t batch, rows, time, width, heads, plane;
	int code;
};

static void put(struct pass *p, int code)
{
	if (!p->code)
		p->code = code;
}

static void put_blas(struct pass *p, int code)
{
	if (code && !p->code)
		snprintf(p->m->why, sizeof(p->m->why), "cuBLAS: %s", p->m->setup.blas->text_of(code));
	put(p, code);
}

static const float *param(const struct pass *p, size_t tensor)
{
	return p->m->params + p->m->table[tensor].offset;
}

static const bf16 *half(const struct pass *p, size_t tensor)
{
	return p->m->half + p->m->table[tensor].offset;
}

static float *grad(const struct pass *p, size_t tensor)
{
	return p->m->grads + p->m->table[tensor].offset;
}

/* ---- products: cuBLAS's columns are our rows ----------------------------------------------------------------- */

static void product(struct pass *p, int op_a, int op_b, size_t m, size_t n, size_t k, const bf16 *a, size_t lda,
		    const bf16 *b, size_t ldb, void *c, int c_type)
{
	static const float one = 1, zero = 0;

	put_blas(p, p->m->setup.blas->product(p->m->blas, op_a, op_b, (int)m, (int)n, (int)k, &one, a, BLAS_BF16,
					      (int)lda, b, BLAS_BF16, (int)ldb, &zero, c, c_type, (int)m,
					      BLAS_COMPUTE_F32, BLAS_DEFAULT));
}

/* y[rows,out] = x[rows,in] * weight[out,in]^T */
static void linear(struct pass *p, size_t in, size_t out, const bf16 *x, const bf16 *weight, void *y, int y_type)
{
	product(p, BLAS_TRANSPOSED, BLAS_PLAIN, out, p->rows, in, weight, in, x, in, y, y_type);
}

/* dx[rows,in] = dy[rows,out] * weight[out,in], and dweight = dy^T * x */
static void linear_backward(struct pass *p, size_t in, size_t out, const bf16 *dy, const bf16 *x, size_t weight,
			    void *dx, int dx_type)
{
	product(p, BLAS_PLAIN, BLAS_PLAIN, in, p->rows, out, half(p, weight), in, dy, out, dx, dx_type);
	product(p, BLAS_PLAIN, BLAS_TRANSPOSED, in, out, p->rows, x, in, dy, out, grad(p, weight), BLAS_F32);
}

/* One operand of the products of all heads of a sequence: matrices stand `stride` elements apart. */
struct operand {
	void *at;
	size_t ld;
	size_t stride;
};

static void head_products(struct pass *p, int op_a, int op_b, size_t m, size_t n, size_t k, struct operand a,
			  struct operand b, struct operand c, int c_type)
{
	static const float one = 1, zero = 0;

	put_blas(p, p->m->setup.blas->products(p->m->blas, op_a, op_b, (int)m, (int)n, (int)k, &one, a.at, BLAS_BF16,
					       (int)a.ld, (long long)a.stride, b.at, BLAS_BF16, (int)b.ld,
					       (long long)b.stride, &zero, c.at, c_type, (int)c.ld, (long long)c.stride,
					       (int)p->heads, BLAS_COMPUTE_F32, BLAS_DEFAULT));
}

/* ---- attention ----------------------------------------------------------------------------------------------- */

struct heads {
	struct operand query, key, value, out, weights;
	float scale;
	size_t cols;
};

static struct heads heads_of(const struct pass *p, size_t sequence, bf16 *qkv, bf16 *weights, bf16 *out)
{
	size_t cols = p->width / p->heads, square = p->time * p->time;
	bf16 *q = qkv + sequence * p->time * 3 * p->width;

	return (struct heads){
		.query = {q, 3 * p->width, cols},
		.key = {q + p->width, 3 * p->width, cols},
		.value = {q + 2 * p->width, 3 * p->width, cols},
		.out = {out + sequence * p->time * p->width, p->width, cols},
		.weights = {weights + sequence * p->heads * square, p->time, square},
		.scale = 1.0f / sqrtf((float)cols),
		.cols = cols,
	};
}

static void attention(struct pass *p, struct gpu_block *b)
{
	struct operand scores = {p->m->scores, p->time, p->time * p->time};

	for (size_t s = 0; s < p->batch; s++) {
		struct heads h = heads_of(p, s, b->qkv, b->weights, b->attended);

		head_products(p, BLAS_TRANSPOSED, BLAS_PLAIN, p->time, p->time, h.cols, h.key, h.query, scores,
			      BLAS_F32);
		put(p, gpu_softmax(p->heads, p->time, h.scale, p->m->scores, h.weights.at, p->stream));
		head_products(p, BLAS_PLAIN, BLAS_PLAIN, h.cols, p->time, p->time, h.value, h.weights, h.out,
			      BLAS_BF16);
	}
}

/* From dattended to dqkv, which takes the place of dwide. */
static void attention_backward(struct pass *p, struct gpu_block *b)
{
	struct gpu_model *m = p->m;
	struct operand dweights = {m->scores, p->time, p->time * p->time};
	struct operand dscores = {m->dscores, p->time, p->time * p->time};

	for (size_t s = 0; s < p->batch; s++) {
		struct heads h = heads_of(p, s, b->qkv, b->weights, m->dattended);
		struct heads d = heads_of(p, s, m->dwide, b->weights, m->dattended);

		head_products(p, BLAS_PLAIN, BLAS_TRANSPOSED, h.cols, p->time, p->time, h.out, h.weights, d.value,
			      BLAS_BF16);
		head_products(p, BLAS_TRANSPOSED, BLAS_PLAIN, p->time, p->time, h.cols, h.value, h.out, dweights,
			      BLAS_F32);
		put(p,
		    gpu_softmax_backward(p->heads, p->time, h.scale, h.weights.at, m->scores, m->dscores, p->stream));
		head_products(p, BLAS_PLAIN, BLAS_PLAIN, h.cols, p->time, p->time, h.key, dscores, d.query, BLAS_BF16);
		head_products(p, BLAS_PLAIN, BLAS_TRANSPOSED, h.cols, p->time, p->time, h.query, dscores, d.key,
			      BLAS_BF16);
	}
}

/* ---- blocks -------------------------------------------------------------------------------------------------- */

static void attention_branch(struct pass *p, int layer)
{
	struct gpu_block *b = &p->m->blocks[layer];

	put(p, gpu_norm(p->rows, p->width, b->x, param(p, tensor_of_block(layer, BLOCK_LN1_WEIGHT)),
			param(p, tensor_of_block(layer, BLOCK_LN1_BIAS)), b->ln1, b->ln1_mean, b->ln1_rstd, p->stream));
	linear(p, p->width, 3 * p->width, b->ln1, half(p, tensor_of_block(layer, BLOCK_QKV_WEIGHT)), b->qkv, BLAS_BF16);
	put(p,
	    gpu_add_bias(p->rows, 3 * p->width, param(p, tensor_of_block(layer, BLOCK_QKV_BIAS)), b->qkv, p->stream));
	attention(p, b);
	linear(p, p->width, p->width, b->attended, half(p, tensor_of_block(layer, BLOCK_PROJ_WEIGHT)), p->m->branch,
	       BLAS_F32);
	put(p, gpu_add_branch(p->rows, p->width, b->x, p->m->branch, param(p, tensor_of_block(layer, BLOCK_PROJ_BIAS)),
			      b->middle, p->stream));
}

/* Up to what goes into the last product: as much as the way back needs. */
static void mlp_inside(struct pass *p, int layer)
{
	struct gpu_block *b = &p->m->blocks[layer];

	put(p, gpu_norm(p->rows, p->width, b->middle, param(p, tensor_of_block(layer, BLOCK_LN2_WEIGHT)),
			param(p, tensor_of_block(layer, BLOCK_LN2_BIAS)), b->ln2, b->ln2_mean, b->ln2_rstd, p->stream));
	linear(p, p->width, 4 * p->width, b->ln2, half(p, tensor_of_block(layer, BLOCK_UP_WEIGHT)), b->up, BLAS_BF16);
	put(p, gpu_add_bias(p->rows, 4 * p->width, param(p, tensor_of_block(layer, BLOCK_UP_BIAS)), b->up, p->stream));
	put(p, gpu_gelu(4 * p->plane, b->up, b->gelu, p->stream));
}

static void mlp_branch(struct pass *p, int layer, float *out)
{
	struct gpu_block *b = &p->m->blocks[layer];

	mlp_inside(p, layer);
	linear(p, 4 * p->width, p->width, b->gelu, half(p, tensor_of_block(layer, BLOCK_DOWN_WEIGHT)), p->m->branch,
	       BLAS_F32);
	put(p, gpu_add_branch(p->rows, p->width, b->middle, p->m->branch,
			      param(p, tensor_of_block(layer, BLOCK_DOWN_BIAS)), out, p->stream));
}

static void mlp_backward(struct pass *p, int layer)
{
	struct gpu_model *m = p->m;
	struct gpu_block *b = &m->blocks[layer];

	put(p, gpu_to_bf16(m->dx, m->dxh, p->plane, p->stream));
	put(p, gpu_bias_backward(p->rows, p->width, m->dxh, grad(p, tensor_of_block(layer, BLOCK_DOWN_BIAS)),
				 m->scratch, p->stream));
	linear_backward(p, 4 * p->width, p->width, m->dxh, b->gelu, tensor_of_block(layer, BLOCK_DOWN_WEIGHT), m->dwide,
			BLAS_BF16);
	put(p, gpu_gelu_backward(4 * p->plane, b->up, m->dwide, p->stream));
	put(p, gpu_bias_backward(p->rows, 4 * p->width, m->dwide, grad(p, tensor_of_block(layer, BLOCK_UP_BIAS)),
				 m->scratch, p->stream));
	linear_backward(p, p->width, 4 * p->width, m->dwide, b->ln2, tensor_of_block(layer, BLOCK_UP_WEIGHT), m->branch,
			BLAS_F32);
	put(p, gpu_norm_backward(p->rows, p->width, m->branch, b->middle,
				 param(p, tensor_of_block(layer, BLOCK_LN2_WEIGHT)), b->ln2_mean, b->ln2_rstd, m->dx,
				 grad(p, tensor_of_block(layer, BLOCK_LN2_WEIGHT)),
				 grad(p, tensor_of_block(layer, BLOCK_LN2_BIAS)), m->scratch, p->stream));
}

static void attention_branch_backward(struct pass *p, int layer)
{
	struct gpu_model *m = p->m;
	struct gpu_block *b = &m->blocks[layer];

	put(p, gpu_to_bf16(m->dx, m->dxh, p->plane, p->stream));
	put(p, gpu_bias_backward(p->rows, p->width, m->dxh, grad(p, tensor_of_block(layer, BLOCK_PROJ_BIAS)),
				 m->scratch, p->stream));
	linear_backward(p, p->width, p->width, m->dxh, b->attended, tensor_of_block(layer, BLOCK_PROJ_WEIGHT),
			m->dattended, BLAS_BF16);
	attention_backward(p, b);
	put(p, gpu_bias_backward(p->rows, 3 * p->width, m->dwide, grad(p, tensor_of_block(layer, BLOCK_QKV_BIAS)),
				 m->scratch, p->stream));
	linear_backward(p, p->width, 3 * p->width, m->dwide, b->ln1, tensor_of_block(layer, BLOCK_QKV_WEIGHT),
			m->branch, BLAS_F32);
	put(p, gpu_norm_backward(p->rows, p->width, m->branch, b->x, param(p, tensor_of_block(layer, BLOCK_LN1_WEIGHT)),
				 b->ln1_mean, b->ln1_rstd, m->dx, grad(p, tensor_of_block(layer, BLOCK_LN1_WEIGHT)),
				 grad(p, tensor_of_block(layer, BLOCK_LN1_BIAS)), m->scratch, p->stream));
}

/* ---- all ----------------------------------------------------------------------------------------------------- */

static void forward(struct pass *p, float scale)
{
	struct gpu_model *m = p->m;
	const struct model_config *c = &m->setup.config;

	put(p, gpu_to_bf16(m->params, m->half, m->size, p->stream));
	put(p, gpu_embedding(p->rows, p->time, p->width, m->input, param(p, TENSOR_TOKEN_WEIGHT),
			     param(p, TENSOR_POSITION_WEIGHT), m->blocks[0].x, p->stream));
	for (int layer = 0; layer < c->layers; layer++) {
		attention_branch(p, layer);
		mlp_branch(p, layer, layer + 1 < c->layers ? m->blocks[layer + 1].x : m->x);
	}
	put(p, gpu_norm(p->rows, p->width, m->x, param(p, tensor_of_last(c, LAST_NORM_WEIGHT)),
			param(p, tensor_of_last(c, LAST_NORM_BIAS)), m->norm, m->norm_mean, m->norm_rstd, p->stream));
	linear(p, p->width, MODEL_VOCAB, m->norm, half(p, tensor_of_last(c, LAST_HEAD_WEIGHT)), m->logits, BLAS_F32);
	put(p, gpu_cross_entropy(p->rows, m->logits, m->target, scale, m->dlogits, m->losses, p->stream));
}

static void backward(struct pass *p)
{
	struct gpu_model *m = p->m;
	const struct model_config *c = &m->setup.config;

	put(p, gpu_zero(m->dx, p->plane * sizeof(float), p->stream));
	linear_backward(p, p->width, MODEL_VOCAB, m->dlogits, m->norm, tensor_of_last(c, LAST_HEAD_WEIGHT), m->branch,
			BLAS_F32);
	put(p, gpu_norm_backward(p->rows, p->width, m->branch, m->x, param(p, tensor_of_last(c, LAST_NORM_WEIGHT)),
				 m->norm_mean, m->norm_rstd, m->dx, grad(p, tensor_of_last(c, LAST_NORM_WEIGHT)),
				 grad(p, tensor_of_last(c, LAST_NORM_BIAS)), m->scratch, p->stream));
	for (int layer = c->layers - 1; layer >= 0; layer--) {
		if (m->setup.recompute) {
			attention_branch(p, layer);
			mlp_inside(p, layer);
		}
		mlp_backward(p, layer);
		attention_branch_backward(p, layer);
	}
	put(p, gpu_embedding_backward(p->rows, p->time, p->width, m->input, m->dx, grad(p, TENSOR_TOKEN_WEIGHT),
				      grad(p, TENSOR_POSITION_WEIGHT), p->stream));
}

int gpu_pass(struct gpu_model *m, size_t rows, float scale)
{
	size_t time = (size_t)m->setup.config.seq_len, width = (size_t)m->setup.config.width;
	struct pass p = {.m = m,
			 .stream = m->setup.stream,
			 .batch = rows,
			 .rows = rows * time,
			 .time = time,
			 .width = width,
			 .heads = (size_t)m->setup.config.heads,
			 .plane = rows * time * width};

	forward(&p, scale);
	backward(&p);
	return p.code;
}
