/*
 * AdamW with ZeRO-1: each rank holds the moments of its shard of the flat vector and updates only that shard;
 * the caller then gathers the parameters (ring_all_gather() over the same shards). Every element is computed on
 * its own from IEEE additions, products, quotients and square roots: the bits do not depend on the world size,
 * the run or the CPU type, given equal gradients.
 */
#ifndef CKPT_TRAINER_OPTIMIZER_H
#define CKPT_TRAINER_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/shard.h"
#include "common/tensor.h"

/* Defaults: {.beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-8f, .weight_decay = 0.1f}. */
struct optimizer_config {
	float beta1, beta2; /* in [0, 1) */
	float epsilon;      /* > 0 */
	float weight_decay; /* >= 0; applied to tensors of two dimensions only */
};

/* What is the same for all elements of one update. */
struct optimizer_factors {
	float beta1, beta2, epsilon;
	float rate;          /* over the first moment's bias correction */
	float second_unbias; /* one over the second moment's bias correction */
	float keep;          /* what weight decay leaves of a parameter */
};

/* Of update `step`, from 1, of a tensor that decays or not. */
struct optimizer_factors optimizer_factors(const struct optimizer_config *config, uint64_t step, float rate,
					   bool decays);

struct optimizer;

/*
 * Creates the state of `rank`'s shard for the `count` tensors of `table` (not kept), moments zero. Belongs to one
 * thread at a time. Returns 0 and an optimizer to be freed with optimizer_free(), -EINVAL or -ENOMEM.
 */
int optimizer_create(const struct optimizer_config *config, const struct tensor *table, size_t count, int rank,
		     int world, struct optimizer **optimizer);

/* NULL is allowed. */
void optimizer_free(struct optimizer *optimizer);

/* The shard's range of the flat vector, and its cut along the tensors (owned by the optimizer). */
struct shard_range optimizer_range(const struct optimizer *optimizer);
const struct shard_segment *optimizer_segments(const struct optimizer *optimizer, size_t *count);

/* The moments: range.end - range.begin floats each, page-aligned, at one address for the optimizer's whole life. */
float *optimizer_moment(struct optimizer *optimizer, enum shard_state state);

/*
 * One update of params[range] from grads[range]; both are whole flat vectors, of which only the shard is read or
 * written. `step` counts from 1 and is the caller's: it is the only other state that a checkpoint must keep.
 */
void optimizer_step(struct optimizer *optimizer, float *params, const float *grads, uint64_t step, float rate);

#endif
