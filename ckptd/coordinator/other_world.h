/* Copies that nodes hold of a world of another size. The present ranks cannot be given them, nor may they be told that there is nothing newer. */
#ifndef CKPTD_COORDINATOR_OTHER_WORLD_H
#define CKPTD_COORDINATOR_OTHER_WORLD_H

#include "coordinator/coordinator.h"

/* The newest step of which each part of such a world is held, and the size of that world; epoch 0: none. wanted: a step, or STEP_NEWEST.
 * Not what `back` gives up. */
struct step_id other_world_newest(const struct coord_survey *survey, uint32_t world, uint64_t wanted,
				  const struct rollbacks *back, uint32_t *other);

#endif
