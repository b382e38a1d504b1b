/*
 * The elastic loop. A rank comes into an epoch (joins, is connected, restores), trains, and when the epoch ends under
 * its feet comes into the next one, in the same process; until the last step is done and saved.
 */
#ifndef CKPT_TRAINER_LOOP_H
#define CKPT_TRAINER_LOOP_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "loop/options.h"
#include "model/data.h"

struct loop_result {
	uint64_t step; /* reached */
	double loss;
	uint64_t fingerprint; /* of the parameters; the same on all ranks */
	int rank;
	bool unsafe; /* trained to the end, but the last save failed */
};

enum { LOOP_WHY_SIZE = 600 };

/*
 * Opens the session, trains to the end or until *stop is set on any rank (or the operator asks), closes the session.
 * 0 and *result, or -errno and a sentence in `why`. A lost neighbour is no error. -ENOTRECOVERABLE: the device's context is lost:
 * the session is open, nothing is freed, and the process must end at once without running anything else, to be replaced.
 */
int loop_run(const struct train_options *options, const struct data *data, const volatile sig_atomic_t *stop,
	     struct loop_result *result, char why[LOOP_WHY_SIZE]);

#endif
