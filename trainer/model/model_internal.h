/*
 * What model.c, pass.c and activations.c share: the inside of a model.
 */
#ifndef CKPT_TRAINER_MODEL_INTERNAL_H
#define CKPT_TRAINER_MODEL_INTERNAL_H

#include "model/model.h"

/* What one block keeps from forward for backward; rows are positions. */
struct block {
	float *x;                         /* input of the block, [rows, width] */
	float *ln1, *ln1_mean, *ln1_rstd; /* [rows, width], [rows], [rows] */
	float *qkv;                       /* [rows, 3 width] */
	float *weights;                   /* [batch, heads, seq_len, seq_len] */
	float *attended;                  /* [rows, width] */
	float *middle;                    /* after attention's residual, [rows, width] */
	float *ln2, *ln2_mean, *ln2_rstd;
	float *up, *gelu; /* [rows, 4 width] */
};

struct model {
	struct model_config config;
	size_t max_rows, size, tensors;
	struct tensor *table;
	float *params, *grads;
	float *activations; /* one allocation, carved into everything below */
	struct block *blocks;
	float *x, *norm, *norm_mean, *norm_rstd; /* of the last block's output */
	float *logits;                           /* [rows, vocab]; their gradient after the loss */
	float *branch;                           /* output of a residual branch, [rows, width] */
	float *dx, *dbranch, *dwide;             /* [rows, width], [rows, width], [rows, 4 width] */
	float *dscores;                          /* [seq_len, seq_len] */
};

/*
 * activations.c: lays all activations out from base, which has as many floats as the function returns; with base
 * NULL it only counts them. Uses config, max_rows and blocks.
 */
size_t activations_carve(struct model *model, float *base);

#endif
