/*
 * Causal self-attention over `batch` independent sequences. qkv[batch * seq_len, 3 * width] holds query, key and
 * value side by side; width is split evenly between the heads. Bits are fixed as in layers.h; nothing fails,
 * allocates or keeps state.
 */
#ifndef CKPT_TRAINER_ATTENTION_H
#define CKPT_TRAINER_ATTENTION_H

#include <stddef.h>

struct attention_shape {
	size_t batch, seq_len, width, heads; /* width is a multiple of heads */
};

/* out[batch * seq_len, width]; weights[batch, heads, seq_len, seq_len] is kept for backward. */
void attention_forward(const struct attention_shape *shape, const float *qkv, float *weights, float *out);

/* dqkv[batch * seq_len, 3 * width] is overwritten; scratch has seq_len * seq_len floats. */
void attention_backward(const struct attention_shape *shape, const float *qkv, const float *weights, const float *dout,
			float *dqkv, float *scratch);

#endif
