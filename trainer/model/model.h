/*
 * The model: parameters, gradients and activations of a byte-level GPT, and its forward and backward passes.
 * A model belongs to one thread at a time. Given the same parameters and rows it computes the same gradients,
 * bit for bit, on every run and every CPU type.
 */
#ifndef CKPT_TRAINER_MODEL_H
#define CKPT_TRAINER_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "common/tensor.h"

struct model;

enum { MODEL_MAX_ROWS = 4096 };

/*
 * Creates a model whose passes take at most max_rows sequences at once; parameters are zero until model_init().
 * Returns 0 and a model to be freed with model_free(), -EINVAL for a bad config or max_rows outside
 * 1 .. MODEL_MAX_ROWS, or -ENOMEM.
 */
int model_create(const struct model_config *config, size_t max_rows, struct model **model);

/* Frees the model and its buffers; NULL is allowed. */
void model_free(struct model *model);

/* Sets the parameters from the seed: the same for every world size and machine. Gradients are left alone. */
void model_init(struct model *model, uint64_t seed);

/* The same into params, which are those of the table (tensor_layout()) of this config. */
void model_init_into(const struct model_config *config, const struct tensor *table, float *params, uint64_t seed);

/* The table of tensors, owned by the model. */
const struct tensor *model_tensors(const struct model *model, size_t *count);

/* The flat vectors, model_size() floats each, page-aligned, at one address for the model's whole life. */
size_t model_size(const struct model *model);
float *model_params(struct model *model);
float *model_grads(struct model *model);

/*
 * Runs `rows` sequences forward: input and target are rows * seq_len bytes, target being what follows each input.
 * Sets *loss to the sum over all positions of the cross-entropy in nats; divide by rows * seq_len for the mean.
 * Returns 0, or -EINVAL when rows is larger than max_rows.
 */
int model_loss(struct model *model, size_t rows, const uint8_t *input, const uint8_t *target, double *loss);

/*
 * As model_loss(), and overwrites the gradients by those of scale * loss. With scale = 1 / (global rows *
 * seq_len), the sum over ranks of their gradients is the gradient of the global mean. rows may be 0: the
 * gradients are then zero.
 */
int model_backward(struct model *model, size_t rows, const uint8_t *input, const uint8_t *target, float scale,
		   double *loss);

#endif
