/* A verdict as it is kept in an arena (struct arena_verdict). */
#ifndef CKPTD_RESTORE_HEALTH_MARKS_ARENA_H
#define CKPTD_RESTORE_HEALTH_MARKS_ARENA_H

#include "format/arena/arena.h"
#include "format/message/wire.h"

struct verdict_kept {
	struct step_id id;
	bool unhealthy;
	uint64_t given_at; /* grows within a job: which of two that are of the same checkpoint is the later one */
	char reason[WIRE_REASON_MAX];
};

void verdict_keep(struct arena_verdict *at, const struct verdict_kept *verdict);
/* false: nothing that holds stands there; who wrote it may have died in the middle of it, and a rank may have scribbled over it. */
bool verdict_recall(const struct arena_verdict *at, struct verdict_kept *verdict);

#endif
