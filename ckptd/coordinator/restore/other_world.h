/* What memory has of a step as a world of another size, or another division of the ranks, has left it: copies, arenas of
 * former ranks, and those of ranks that stay where they were. The present ranks are given it cut anew (restore/recut.h),
 * if each part of it is there. */
#ifndef CKPTD_COORDINATOR_OTHER_WORLD_H
#define CKPTD_COORDINATOR_OTHER_WORLD_H

#include "coordinator/coordinator.h"

/* The newest step of which each part of such a world is held, and the size of that world; epoch 0: none. wanted: a step, or STEP_NEWEST.
 * Not what `back` gives up. */
struct step_id other_world_newest(const struct coord_survey *survey, uint32_t world, uint64_t wanted,
				  const struct rollbacks *back, uint32_t *other);
/* Each part of the step is held, of this world. */
bool other_world_whole(const struct coord_survey *survey, struct step_id id, uint32_t world);
/* The newest of such a world that is newer than `than`, and of which a part is lacking. False: there is none. */
struct other_gap {
	struct step_id id;
	uint32_t world, rank; /* of which nobody has the part */
};
bool other_world_gap(const struct coord_survey *survey, uint32_t world, uint64_t wanted, const struct rollbacks *back,
		     struct step_id than, struct other_gap *gap);
/* It cannot be had. */
void other_world_pass_over(struct coord_held *held, size_t *n, struct step_id id, uint32_t world);

#endif
