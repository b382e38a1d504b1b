/*
 * The table of named tensors that a flat float vector is made of: the unit that a checkpoint registers.
 */
#ifndef CKPT_TRAINER_TENSOR_H
#define CKPT_TRAINER_TENSOR_H

#include <stddef.h>
#include <stdint.h>

enum { TENSOR_NAME_SIZE = 48 };

struct tensor {
	char name[TENSOR_NAME_SIZE]; /* NUL-terminated, unique in its table */
	int dims;                    /* 1 or 2 */
	int64_t shape[2];            /* row-major; shape[1] is 1 when dims is 1 */
	size_t offset;               /* of the first element in the flat vector, in elements */
	size_t count;                /* shape[0] * shape[1] */
};

/*
 * A model's shape: a byte-level GPT with pre-LN blocks of causal attention and a GELU MLP of 4 * width.
 * The default: {.layers = 2, .width = 64, .seq_len = 64, .heads = 4}.
 */
struct model_config {
	int layers;  /* 1 .. 128 */
	int width;   /* a multiple of heads, at most 65536 */
	int seq_len; /* 1 .. 65536 */
	int heads;   /* 1 .. 256 */
};

enum { MODEL_VOCAB = 256 };

/* Tensors of the whole model, before, between and after those of the blocks. */
enum {
	TENSOR_TOKEN_WEIGHT,
	TENSOR_POSITION_WEIGHT,
	TENSOR_FIRST_BLOCK,
};

enum block_tensor {
	BLOCK_LN1_WEIGHT,
	BLOCK_LN1_BIAS,
	BLOCK_QKV_WEIGHT,
	BLOCK_QKV_BIAS,
	BLOCK_PROJ_WEIGHT,
	BLOCK_PROJ_BIAS,
	BLOCK_LN2_WEIGHT,
	BLOCK_LN2_BIAS,
	BLOCK_UP_WEIGHT,
	BLOCK_UP_BIAS,
	BLOCK_DOWN_WEIGHT,
	BLOCK_DOWN_BIAS,
	BLOCK_TENSORS,
};

enum last_tensor {
	LAST_NORM_WEIGHT,
	LAST_NORM_BIAS,
	LAST_HEAD_WEIGHT,
	LAST_TENSORS,
};

/* 0, or -EINVAL when a field is out of the range that stands beside it. */
int model_config_check(const struct model_config *config);

/* Number of tensors of a model: 2 + 12 per layer + 3. */
size_t tensor_count(const struct model_config *config);

/*
 * Fills table[tensor_count(config)], in flat order without gaps, and returns the number of elements of the flat
 * vector. The config must have passed model_config_check(). Pure.
 */
size_t tensor_layout(const struct model_config *config, struct tensor *table);

/* Indices in the table. */
static inline size_t tensor_of_block(int layer, enum block_tensor part)
{
	return TENSOR_FIRST_BLOCK + (size_t)layer * BLOCK_TENSORS + part;
}

static inline size_t tensor_of_last(const struct model_config *config, enum last_tensor part)
{
	return TENSOR_FIRST_BLOCK + (size_t)config->layers * BLOCK_TENSORS + part;
}

#endif
