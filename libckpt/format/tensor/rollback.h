/* Rollbacks: a job has gone back to an earlier step, and what it had saved since is given up. */
#ifndef CKPT_FORMAT_ROLLBACK_H
#define CKPT_FORMAT_ROLLBACK_H

#include "format/tensor/names.h"

#include <string.h>

enum { ROLLBACKS_MAX = 8 };

struct rollback {
	uint32_t at;       /* the epoch that began with it */
	struct step_id to; /* of an earlier epoch */
};

/* The oldest first. Each goes back to an epoch in which the one before held: else it took its place. */
struct rollbacks {
	uint32_t n;
	struct rollback of[ROLLBACKS_MAX];
};

/* It was saved before the job went back, and is later than where it went back to. */
static inline bool rollbacks_give_up(const struct rollbacks *all, struct step_id id)
{
	bool any = false;
	for (uint32_t i = 0; i < all->n; i++)
		any |= id.epoch < all->of[i].at && step_compare(id, all->of[i].to) > 0;
	return any;
}

/* The epoch that began with the last one; 0: there is none. */
static inline uint32_t rollbacks_last(const struct rollbacks *all)
{
	return all->n ? all->of[all->n - 1].at : 0;
}

/* Where there are too many, the oldest is forgotten: what it gave up is older than what the others leave. */
static inline void rollbacks_add(struct rollbacks *all, struct rollback last)
{
	while (all->n && all->of[all->n - 1].at > last.to.epoch)
		all->n--;
	if (all->n == ROLLBACKS_MAX)
		memmove(all->of, all->of + 1, --all->n * sizeof(all->of[0]));
	all->of[all->n++] = last;
}

/* A job can have made them. */
static inline bool rollbacks_are_sound(const struct rollbacks *all)
{
	uint32_t held = 0;
	bool sound = all->n <= ROLLBACKS_MAX;
	for (uint32_t i = 0; sound && i < all->n; i++) {
		const struct rollback *b = &all->of[i];
		sound = b->to.epoch && b->to.epoch >= held && b->to.epoch < b->at && b->at <= EPOCH_MAX &&
			b->to.step <= STEP_MAX;
		held = b->at;
	}
	return sound;
}

#endif
