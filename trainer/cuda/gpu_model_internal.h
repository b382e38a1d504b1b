/* What gpu_model.c and gpu_pass.c share: the inside of a model on a GPU. */
#ifndef CKPT_TRAINER_GPU_MODEL_INTERNAL_H
#define CKPT_TRAINER_GPU_MODEL_INTERNAL_H

#include "gpu_layers.h"
#include "gpu_model.h"

/* What a block keeps; with recomputation all but x is the same memory in all of them. */
struct gpu_block {
	float *x, *middle;
	float *ln1_mean, *ln1_rstd, *ln2_mean, *ln2_rstd;
	bf16 *ln1, *qkv, *weights, *attended, *ln2, *up, *gelu;
};

struct gpu_model {
	struct gpu_model_setup setup;
	size_t tensors, size;
	struct tensor *table;
	void *blas;   /* handle */
	void *memory; /* all that is on the device */
	float *params, *grads;
	bf16 *half; /* the parameters, rounded */
	struct gpu_block *blocks;
	float *x, *norm_mean, *norm_rstd, *logits, *branch, *dx, *scores, *scratch, *losses;
	bf16 *norm, *dlogits, *dxh, *dwide, *dattended, *dscores;
	uint8_t *input, *target;
	uint8_t *rows_host; /* pinned: input and target on their way */
	float *losses_host; /* pinned */
	size_t rows;        /* of the last pass, times seq_len */
	char why[BLAS_WHY_SIZE];
};

/* gpu_pass.c */
int gpu_pass(struct gpu_model *model, size_t rows, float scale);

#endif
