/*
 * What a checkpoint of the trainer holds: the parameters (equal on all ranks), this rank's shard of the optimiser's
 * moments, what compressed gradients have left out, and the counters. All of it stays at one address for the state's whole life.
 */
#ifndef CKPT_TRAINER_STATE_H
#define CKPT_TRAINER_STATE_H

#include <stdint.h>

#include "ckpt.h"
#include "loop/options.h"
#include "model/engine.h"
#include "model/squeeze.h"

enum { STATE_VERSION = 1 };

/* The blob "trainer.step": the same bytes on every rank. Integers in the machine's byte order. */
struct counters {
	uint64_t version; /* STATE_VERSION */
	uint64_t step;    /* updates made */
	double loss;      /* mean over the rows of the last of them, before it */
	/* where the run came from; a later one may differ, but is then not its continuation bit for bit */
	uint64_t seed, batch, text; /* text: data_fingerprint() */
	uint64_t reserved[2];       /* zero */
};
_Static_assert(sizeof(struct counters) == 64, "the blob's size is part of the checkpoint");

struct state {
	struct engine *engine;
	struct squeeze squeeze;
	struct counters counters;
};

/* 0 or -errno. Nothing is initialised but sizes and addresses: state_reset() or a restore follows. */
int state_create(struct platform *platform, const struct train_options *options, int rank, int world,
		 struct state *state);
/* All zero is allowed. */
void state_free(struct state *state);

/* The state before the first step. 0 or the engine's error. */
int state_reset(struct state *state, const struct train_options *options, uint64_t text);

/* Adds everything to the session's table. 0 or the library's error. The state must outlive the session. */
int state_register(struct state *state, ckpt *session);

/* FNV-1a-64 over the bytes of the parameters. 0 or -errno. */
int state_fingerprint(const struct state *state, uint64_t *fingerprint);

/* Writes the parameters' bytes to a file that appears complete or not at all. 0 or -errno. */
int state_dump(const struct state *state, const char *file);

#endif
