/* A mark as it is kept in an arena (struct arena_health_mark). */
#ifndef CKPTD_SAVE_HEALTH_MARKS_ARENA_H
#define CKPTD_SAVE_HEALTH_MARKS_ARENA_H

#include "format/arena/arena.h"
#include "format/message/wire.h"

struct kept_mark {
	struct step_id id;
	bool unhealthy;
	uint64_t given_at; /* grows within a job: which of two that are of the same checkpoint is the later one */
	char reason[WIRE_REASON_MAX];
};

void mark_keep(struct arena_health_mark *at, const struct kept_mark *mark);
/* false: nothing that holds stands there; who wrote it may have died in the middle of it, and a rank may have scribbled over it. */
bool mark_recall(const struct arena_health_mark *at, struct kept_mark *mark);

#endif
