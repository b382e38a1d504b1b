/* Private to saves*.c, save/slot_reclaim.c and save/save_policy.c. */
#ifndef CKPTD_SAVE_SAVES_PRIVATE_H
#define CKPTD_SAVE_SAVES_PRIVATE_H

#include "config/setting.h"
#include "save/saves.h"

static inline struct saved_rank saved_rank(const struct saves *saves, uint32_t index)
{
	return saves->of.rank(saves->of.job, index);
}

/* An arena that has come back, and whose slots were not looked at yet. Not all tables are there to make the arenas of the
 * job, or the coordinator has yet to say the epoch. What is in it may be the only copy of a snapshot. */
static inline bool saves_unseen(const struct saves *saves, uint32_t index)
{
	struct saved_rank rank = saved_rank(saves, index);
	return rank.mem && rank.mem->adopted && (!rank.in_use || !*saves->of.epoch);
}

/* Keeps the order of (epoch, step). */
void saves_insert(struct saves *saves, struct snapshot *s);
/* It is to be written, and nobody has begun to. */
bool saves_wants_commit(const struct snapshot *s);
/* What the coordinator has ordered to be written, once it can be. NULL: nothing. */
struct snapshot *saves_ordered(struct saves *saves);
/* In a new epoch: how far its commit is. */
void saves_say_again(struct saves *saves, struct snapshot *s);
/* The commit has written nothing that counts, and stops; the snapshot is to be written later. */
void saves_begin_anew(struct snapshot *s, const char *why);
/* Begins the next read-back, if there is one and nothing hinders it (save/saves_readback.c). */
void saves_pump_readback(struct saves *saves);
/* Gives back the slots that nobody needs, forgets the snapshots that have ended (save/slot_reclaim.c). */
void saves_reclaim(struct saves *saves);
/* All slots of some rank are in use (save/save_policy.c). */
bool saves_lack_slots(const struct saves *saves);

#endif
