#include "model/attention.h"

#include <math.h>
#include <string.h>

#include "model/layers.h"
#include "model/matmul.h"

/* Offsets, in floats, of one head of one sequence; `cols` is the head's width. */
struct head {
	size_t cols, qkv, weights, out;
};

static struct head find_head(const struct attention_shape *s, size_t sequence, size_t index)
{
	size_t cols = s->width / s->heads;

	return (struct head){
		.cols = cols,
		.qkv = sequence * s->seq_len * 3 * s->width + index * cols,
		.weights = (sequence * s->heads + index) * s->seq_len * s->seq_len,
		.out = sequence * s->seq_len * s->width + index * cols,
	};
}

/* Scores to weights, row by row; what lies in a row's future gets weight 0. */
static void causal_softmax(size_t seq_len, float scale, float *weights)
{
	for (size_t t = 0; t < seq_len; t++, weights += seq_len) {
		for (size_t i = 0; i <= t; i++)
			weights[i] *= scale;
		softmax(t + 1, weights);
		memset(weights + t + 1, 0, (seq_len - t - 1) * sizeof(float));
	}
}

static void head_forward(const struct attention_shape *s, struct head head, const float *qkv, float *weights,
			 float *out)
{
	size_t time = s->seq_len, ld = 3 * s->width;
	const float *query = qkv + head.qkv, *key = query + s->width, *value = key + s->width;
	float *w = weights + head.weights;

	matmul_nt(time, time, head.cols, query, ld, key, ld, w, time, false);
	causal_softmax(time, 1.0f / sqrtf((float)head.cols), w);
	matmul_nn(time, head.cols, time, w, time, value, ld, out + head.out, s->width, false);
}

void attention_forward(const struct attention_shape *shape, const float *qkv, float *weights, float *out)
{
	for (size_t b = 0; b < shape->batch; b++)
		for (size_t h = 0; h < shape->heads; h++)
			head_forward(shape, find_head(shape, b, h), qkv, weights, out);
}

/* dweights to dscores, in place: ds = w * (dw - sum(w * dw)) * scale. The future's weights are 0, hence ds is. */
static void causal_softmax_backward(size_t seq_len, float scale, const float *weights, float *dweights)
{
	for (size_t t = 0; t < seq_len; t++, weights += seq_len, dweights += seq_len) {
		for (size_t i = 0; i < seq_len; i++)
			dweights[i] *= weights[i];
		float sum = sum_fixed(dweights, t + 1);
		for (size_t i = 0; i < seq_len; i++)
			dweights[i] = (dweights[i] - weights[i] * sum) * scale;
	}
}

static void head_backward(const struct attention_shape *s, struct head head, const float *qkv, const float *weights,
			  const float *dout, float *dqkv, float *scratch)
{
	size_t time = s->seq_len, cols = head.cols, ld = 3 * s->width;
	const float *query = qkv + head.qkv, *key = query + s->width, *value = key + s->width;
	float *dquery = dqkv + head.qkv, *dkey = dquery + s->width, *dvalue = dkey + s->width;
	const float *w = weights + head.weights;

	dout += head.out;
	matmul_tn(time, cols, time, w, time, dout, s->width, dvalue, ld, false);
	matmul_nt(time, time, cols, dout, s->width, value, ld, scratch, time, false);
	causal_softmax_backward(time, 1.0f / sqrtf((float)cols), w, scratch);
	matmul_nn(time, cols, time, scratch, time, key, ld, dquery, ld, false);
	matmul_tn(time, cols, time, scratch, time, query, ld, dkey, ld, false);
}

void attention_backward(const struct attention_shape *shape, const float *qkv, const float *weights, const float *dout,
			float *dqkv, float *scratch)
{
	for (size_t b = 0; b < shape->batch; b++)
		for (size_t h = 0; h < shape->heads; h++)
			head_backward(shape, find_head(shape, b, h), qkv, weights, dout, dqkv, scratch);
}
