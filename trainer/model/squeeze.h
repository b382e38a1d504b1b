/* The gradients of a rank on their way in packed form (compress.h): what the rank keeps for it, and the exchange. Where the engine has its
 * memory. */
#ifndef CKPT_TRAINER_SQUEEZE_H
#define CKPT_TRAINER_SQUEEZE_H

#include "collective/communicator.h"
#include "model/engine.h"

struct squeeze {
	enum compress_kind kind;
	struct engine *engine; /* borrowed */
	size_t count;          /* elements of the gradient */
	/* [count], owned, at one address: state of the rank, which changes in squeeze_commit() alone; NULL: kind is COMPRESS_NONE */
	float *residual;
	float *left;  /* [count], owned: what it becomes */
	float *parts; /* [world * compress_size()], owned */
};

/* 0 or -ENOMEM; then squeeze_free() is allowed as well. */
int squeeze_create(struct squeeze *squeeze, enum compress_kind kind, struct engine *engine, int world);
void squeeze_free(struct squeeze *squeeze);

/* Nothing is left out so far. */
int squeeze_reset(struct squeeze *squeeze);
/* As communicator_reduce_scatter(): the rank's shard of grads becomes the sum over all ranks, in the order of ranks. */
int squeeze_reduce_scatter(struct squeeze *squeeze, struct communicator *communicator, float *grads);
/* What was left out becomes the rank's state: not before the capture of the last save is complete. */
int squeeze_commit(struct squeeze *squeeze);

#endif
