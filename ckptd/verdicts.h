/* Verdicts: what the training has said of the checkpoints of a job (ckpt_mark). It is written beside a checkpoint, as VERDICT.json, once
 * that is on storage; until then, and for snapshots that stay in memory, it is kept here: the last VERDICTS_MAX that were said, where those
 * that are written go first. */
#ifndef CKPTD_VERDICTS_H
#define CKPTD_VERDICTS_H

#include "format/wire.h"

struct job;
struct rank;

enum { VERDICTS_MAX = 64 };

struct verdict_said {
	struct step_id id;
	bool unhealthy;
	bool due;     /* to be written, as soon as the worker is free */
	bool written; /* it stands beside the checkpoint */
	bool failed;  /* it could not be written, though the checkpoint is there */
	uint64_t given_at;
	char reason[WIRE_REASON_MAX];
};

struct verdicts {
	struct job *job;
	struct verdict_said said[VERDICTS_MAX]; /* the first one is the oldest */
	unsigned n;
	bool writing;      /* a worker is at it: one at a time */
	struct step_id at; /* while it is: of which */
};

void verdicts_init(struct verdicts *verdicts, struct job *job);
/* A rank says so; it is answered when it is noted, or refused: -ESTALE. What was said before and is not written is tried again. */
void verdicts_take(struct rank *rank, uint32_t seq, const struct wire_mark *mark);
/* The checkpoint is on storage. So that can be written to: what could not be written before is tried again, too. */
void verdicts_durable(struct verdicts *verdicts, struct step_id id);
/* What was said here. NULL: nothing. */
const struct verdict_said *verdicts_find(const struct verdicts *verdicts, struct step_id id);
/* Nothing is being written, nor has to be. */
bool verdicts_idle(const struct verdicts *verdicts);

#endif
