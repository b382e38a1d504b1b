/* Ranks that were started with other options would train another model each: they compare before they begin. */
#ifndef CKPT_TRAINER_AGREE_H
#define CKPT_TRAINER_AGREE_H

#include <stdint.h>

#include "crew.h"
#include "options.h"

/* text: data_fingerprint(). 0; -EINVAL and crew.why naming option and ranks; or the crew's error. */
int agree(struct crew *crew, const struct train_options *options, uint64_t text);

#endif
