/* One training step of one rank: its rows of the batch, gradients, the update of its shard, and the exchange of all that. */
#ifndef CKPT_TRAINER_STEP_H
#define CKPT_TRAINER_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "collective/communicator.h"
#include "loop/faults.h"
#include "loop/options.h"
#include "loop/saver.h"
#include "loop/state.h"
#include "model/data.h"
#include "model/device.h"

struct step {
	/* borrowed, set by the owner */
	const struct train_options *options;
	const struct data *data;
	struct state *state;
	struct communicator *communicator;
	struct saver *saver;
	struct device *device;
	struct faults *faults;

	uint8_t *input, *target; /* this rank's rows, owned */
	double *sums;            /* owned: what travels with the loss, see step.c */
	bool flips;              /* some rank is to flip a bit before the next save: on 0 the same on all ranks */
};

/* Allocates the rows. 0, or -ENOMEM. */
int step_prepare(struct step *step, int world);
void step_free(struct step *step);

/*
 * Runs one step: on 0 the state is that after the update, equal to what any other run with this seed and world size has
 * there, bit for bit. *stop tells whether this rank wants to end, on return whether any does: the same on all ranks.
 * -EUCLEAN, on all ranks: some rank has heard that replicas differed in a save: the state comes from that, and is left as
 * it is. -ESTALE (communicator.why or saver.why): the epoch is over and the state is garbage; -ENOTRECOVERABLE
 * (device->why or communicator.why); or another error.
 */
int step_run(struct step *step, bool *stop);

/* [world]: how long each rank's own part of the last step took, in ms, the same on all ranks; NULL: the world is too large to tell. */
const double *step_times(const struct step *step);

/* The learning rate of the update that makes `number` updates, from 1: a linear rise, then constant. */
float step_rate(const struct train_options *options, uint64_t number);

#endif
