/* Rollback: a job has gone back to an earlier step, and what it had saved since is given up. */
#ifndef CKPT_FORMAT_ROLLBACK_H
#define CKPT_FORMAT_ROLLBACK_H

#include "format/tensor/names.h"

struct rollback {
	uint32_t at;       /* the epoch that began with it; 0: the job has not gone back */
	struct step_id to; /* of an earlier epoch */
};

/* It was saved before the job went back, and is later than where it went back to. */
static inline bool rollback_gives_up(const struct rollback *back, struct step_id id)
{
	return id.epoch < back->at && step_compare(id, back->to) > 0;
}

/* It is none, or one that a job can have made. */
static inline bool rollback_is_sound(const struct rollback *back)
{
	if (!back->at)
		return !back->to.epoch && !back->to.step;
	return back->at <= EPOCH_MAX && back->to.epoch && back->to.epoch < back->at && back->to.step <= STEP_MAX;
}

#endif
