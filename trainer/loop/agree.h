/* Ranks that were started with other options would train another model each: they compare before they begin. */
#ifndef CKPT_TRAINER_AGREE_H
#define CKPT_TRAINER_AGREE_H

#include <stdint.h>

#include "collective/communicator.h"
#include "loop/options.h"

/* text: data_fingerprint(). 0; -EINVAL and communicator.why naming option and ranks; or the communicator's error. */
int agree(struct communicator *communicator, const struct train_options *options, uint64_t text);

#endif
