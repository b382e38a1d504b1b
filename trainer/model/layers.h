/*
 * The layers of the model, forward and backward, on row-major float arrays owned by the caller. A row is one
 * position of one sequence; `rows` is batch * seq_len. Backward functions add to the gradients of parameters
 * (dweight, dbias) and overwrite the gradient of the input (dx) unless said otherwise. Arrays must not overlap
 * unless said otherwise. Every sum has a fixed order, so equal inputs give equal bits, on every CPU type.
 * No function fails, allocates or keeps state: all are thread-safe on distinct outputs.
 */
#ifndef CKPT_TRAINER_LAYERS_H
#define CKPT_TRAINER_LAYERS_H

#include <stddef.h>
#include <stdint.h>

/* The sum of n floats, in sixteen interleaved partial sums that are then added pairwise. */
float sum_fixed(const float *x, size_t n);

/* out[rows,width] = (x - mean) * rstd * weight + bias; mean and rstd are per row, [rows], kept for backward. */
void layer_norm_forward(size_t rows, size_t width, const float *x, const float *weight, const float *bias, float *out,
			float *mean, float *rstd);

/* Adds to dx[rows,width], because the residual path's gradient is already there. */
void layer_norm_backward(size_t rows, size_t width, const float *dout, const float *x, const float *weight,
			 const float *mean, const float *rstd, float *dx, float *dweight, float *dbias);

/* y[rows,out] = x[rows,in] * weight[out,in]^T + bias[out]; bias may be NULL. */
void linear_forward(size_t rows, size_t in, size_t out, const float *x, const float *weight, const float *bias,
		    float *y);

/* dbias may be NULL when there is no bias. */
void linear_backward(size_t rows, size_t in, size_t out, const float *dy, const float *x, const float *weight,
		     float *dx, float *dweight, float *dbias);

/* y = gelu(x), tanh form, n elements. */
void gelu_forward(size_t n, const float *x, float *y);

/* dx = dy * gelu'(x); dx may be dy. */
void gelu_backward(size_t n, const float *x, const float *dy, float *dx);

/* out[row] = tokens_weight[input[row]] + position_weight[row mod seq_len]; input are bytes. */
void embedding_forward(size_t rows, size_t seq_len, size_t width, const uint8_t *input, const float *token_weight,
		       const float *position_weight, float *out);

void embedding_backward(size_t rows, size_t seq_len, size_t width, const uint8_t *input, const float *dout,
			float *dtoken_weight, float *dposition_weight);

/*
 * Cross-entropy of logits[rows,classes] against target bytes. Returns the sum of the rows' losses (nats), in
 * double; replaces the logits by scale * dloss/dlogits. The gradient's bits are fixed; the returned value uses
 * the C library's log() and may differ in the last place between machines.
 */
double cross_entropy(size_t rows, size_t classes, float *logits, const uint8_t *target, float scale);

/* Turns x[n] into exp(x - max) / sum in place; n > 0. Returns log(sum) + max. */
double softmax(size_t n, float *x);

#endif
