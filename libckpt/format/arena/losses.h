/* Losses, as a rank hands them over in its arena (ckpt_beat_loss) and the daemon takes them from there. A loss and its
 * step are read together or not at all. Who reads too late misses some, never mixes them. */
#ifndef CKPT_FORMAT_LOSSES_H
#define CKPT_FORMAT_LOSSES_H

#include "format/arena/arena.h"

#include <stdbool.h>

struct loss_said {
	uint64_t step;
	uint32_t epoch; /* that the rank was in */
	double loss;
	float gradient_norm; /* negative: not given */
};

/* Rank: one thread at a time. A process before it may have died in the middle. */
void losses_put(struct arena_losses *losses, const struct loss_said *said);
/* Daemon: the oldest that is still there, from the number *next on; then *next is behind it. False: there is none (any more). */
bool losses_next(const struct arena_losses *losses, uint64_t *next, struct loss_said *said);

#endif
