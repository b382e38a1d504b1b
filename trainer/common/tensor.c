#include "common/tensor.h"

#include <errno.h>
#include <stdio.h>

/* Shapes in multiples of the model's width; 0 columns means one dimension. */
struct part {
	const char *name;
	int rows, cols;
};

static const struct part block_parts[BLOCK_TENSORS] = {
	[BLOCK_LN1_WEIGHT] = {"ln1.weight", 1, 0},        [BLOCK_LN1_BIAS] = {"ln1.bias", 1, 0},
	[BLOCK_QKV_WEIGHT] = {"attn.qkv.weight", 3, 1},   [BLOCK_QKV_BIAS] = {"attn.qkv.bias", 3, 0},
	[BLOCK_PROJ_WEIGHT] = {"attn.proj.weight", 1, 1}, [BLOCK_PROJ_BIAS] = {"attn.proj.bias", 1, 0},
	[BLOCK_LN2_WEIGHT] = {"ln2.weight", 1, 0},        [BLOCK_LN2_BIAS] = {"ln2.bias", 1, 0},
	[BLOCK_UP_WEIGHT] = {"mlp.up.weight", 4, 1},      [BLOCK_UP_BIAS] = {"mlp.up.bias", 4, 0},
	[BLOCK_DOWN_WEIGHT] = {"mlp.down.weight", 1, 4},  [BLOCK_DOWN_BIAS] = {"mlp.down.bias", 1, 0},
};

int model_config_check(const struct model_config *c)
{
	if (c->layers < 1 || c->layers > 128 || c->seq_len < 1 || c->seq_len > 65536)
		return -EINVAL;
	if (c->heads < 1 || c->heads > 256 || c->width < 1 || c->width > 65536 || c->width % c->heads)
		return -EINVAL;
	return 0;
}

size_t tensor_count(const struct model_config *config)
{
	return tensor_of_last(config, LAST_TENSORS);
}

/* Appends one tensor; returns the flat offset behind it. */
static size_t append(struct tensor *tensor, size_t offset, int64_t rows, int64_t cols)
{
	tensor->dims = cols ? 2 : 1;
	tensor->shape[0] = rows;
	tensor->shape[1] = cols ? cols : 1;
	tensor->offset = offset;
	tensor->count = (size_t)(rows * tensor->shape[1]);
	return offset + tensor->count;
}

static size_t append_named(struct tensor *tensor, size_t offset, const char *name, int64_t rows, int64_t cols)
{
	snprintf(tensor->name, sizeof(tensor->name), "%s", name);
	return append(tensor, offset, rows, cols);
}

static size_t append_block(struct tensor *table, size_t offset, int layer, int64_t width)
{
	for (int i = 0; i < BLOCK_TENSORS; i++) {
		const struct part *part = &block_parts[i];
		struct tensor *tensor = &table[tensor_of_block(layer, (enum block_tensor)i)];

		snprintf(tensor->name, sizeof(tensor->name), "block.%d.%s", layer, part->name);
		offset = append(tensor, offset, part->rows * width, part->cols * width);
	}
	return offset;
}

size_t tensor_layout(const struct model_config *c, struct tensor *table)
{
	struct tensor *last = table + tensor_of_last(c, LAST_NORM_WEIGHT);
	size_t end = 0;

	end = append_named(&table[TENSOR_TOKEN_WEIGHT], end, "token.weight", MODEL_VOCAB, c->width);
	end = append_named(&table[TENSOR_POSITION_WEIGHT], end, "position.weight", c->seq_len, c->width);
	for (int layer = 0; layer < c->layers; layer++)
		end = append_block(table, end, layer, c->width);
	end = append_named(&last[LAST_NORM_WEIGHT], end, "norm.weight", c->width, 0);
	end = append_named(&last[LAST_NORM_BIAS], end, "norm.bias", c->width, 0);
	return append_named(&last[LAST_HEAD_WEIGHT], end, "head.weight", MODEL_VOCAB, c->width);
}
