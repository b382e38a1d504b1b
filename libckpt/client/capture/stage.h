/* Stage: where a joined session captures to and restores from: the arenas that the daemon handed out, the devices and their
 * plans, the doorbell. Counted: snapshots and calls in progress hold it, so that nothing is unmapped under them when a daemon
 * that lost its arenas hands out others. */
#ifndef CKPT_STAGE_H
#define CKPT_STAGE_H

#include "client/capture/capture.h"

struct stage {
	_Atomic unsigned refs;
	_Atomic bool lost; /* the daemon no longer has this memory: snapshots in it are gone, ckpt_join gets another */
	pid_t pid;         /* of the process that mapped it: in a child it is not there */
	int doorbell;      /* eventfd of the daemon; replaced in place (dup3) when the daemon restarted */
	struct arenas arenas;
	struct capture capture;
};

/* Builds a stage from an ARENA message, whose descriptors are taken. One reference. */
int stage_new(struct frame *f, const struct table *table, const struct device_layers *layers,
	      const struct settings *settings, struct stage **out, struct err *err);
struct stage *stage_get(struct stage *stage);
/* The last one waits until no device writes into the arena. NULL is allowed. */
void stage_put(struct stage *stage);

/* A restarted daemon's ARENA message: true when it is the same memory; then its doorbell is ours. */
bool stage_again(struct stage *stage, struct frame *f);

static inline struct arena_head *stage_head(const struct stage *stage)
{
	return arena_head(stage->arenas.own);
}

/* Tells the daemon to look at the slots. */
void stage_ring(const struct stage *stage);
/* Whether this snapshot is the last one that was begun in the slot, given up or not. */
bool stage_was_last(const struct stage *stage, uint32_t slot, struct step_id id);
/* Whether the slot (still) belongs to this snapshot. */
bool stage_holds(const struct stage *stage, uint32_t slot, struct step_id id);
/* Gives up an unfenced snapshot in this slot: it is never promoted. No effect on a fenced or another one. */
void stage_give_up(const struct stage *stage, uint32_t slot, struct step_id id);

/* What the daemon shows for a snapshot. */
struct shown {
	int level, error;
	uint32_t late_rank, late_phase;
};
/* true: *out is a consistent copy of its entry. */
bool stage_shown(const struct stage *stage, struct step_id id, struct shown *out);
/* What stands for now in the order of the changes of the ring. */
uint32_t stage_newest(const struct stage *stage);
/* Whether the daemon, which is in a later epoch, has not seen it: it shows what it has seen. `begun` is stage_newest before its slot was
 * taken. If it had been shown, its entry would have been changed since, and be there still beside one that was not. */
bool stage_unseen(const struct stage *stage, struct step_id id, uint32_t begun);
/* Whether nothing more will be shown of it: the daemon has given its slot back, which it does after it has shown what became of it, and the
 * entry was needed for another. */
bool stage_dropped(const struct stage *stage, uint32_t slot, struct step_id id);
/* Sleeps until the wake counter differs from `seen` or the deadline. */
void stage_sleep(const struct stage *stage, uint32_t seen, uint64_t deadline);
/* Ends that, for this process, as the daemon does. */
void stage_wake(const struct stage *stage);

#endif
