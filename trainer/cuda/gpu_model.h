/*
 * The model on a GPU: the same network as model.h, computed in bf16 from fp32 masters. Weights and what products take are bf16, sums
 * of products, the residual stream, norms, the loss and all gradients of parameters fp32. On one stream, in a fixed order: equal inputs
 * give equal bits on one kind of GPU.
 *
 * Calls put work on the stream and return at once. 0, -ENOMEM, -EINVAL, or -EIO: gpu_model_why().
 */
#ifndef CKPT_TRAINER_GPU_MODEL_H
#define CKPT_TRAINER_GPU_MODEL_H

#include <stdbool.h>

#include "blas_table.h"
#include "model/model.h"

struct gpu_model;

struct gpu_model_setup {
	struct model_config config;
	size_t max_rows;
	size_t room;    /* floats of the flat vectors, at least what the tensors need */
	bool recompute; /* keep only the blocks' inputs, and compute the rest again on the way back */
	const struct blas_table *blas;
	void *stream;
};

/* Memory is allocated and zeroed, nothing else. *model is to be freed in any case. */
int gpu_model_create(const struct gpu_model_setup *setup, struct gpu_model **model);
void gpu_model_free(struct gpu_model *model);
const char *gpu_model_why(const struct gpu_model *model);

/* Flat vectors on the device, as of model_params() and model_grads(), at one address. */
float *gpu_model_params(struct gpu_model *model);
float *gpu_model_grads(struct gpu_model *model);

/* As model_backward(); input and target are on the host and may be changed when it returns. The loss comes later. */
int gpu_model_backward(struct gpu_model *model, size_t rows, const uint8_t *input, const uint8_t *target, float scale);
/* To be called when the stream is done: what model_backward() calls *loss. */
double gpu_model_loss(const struct gpu_model *model);

#endif
