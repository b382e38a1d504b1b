/* Health marks: what the training has said of the checkpoints of a job (ckpt_mark). It is written beside a checkpoint, as
 * VERDICT.json, once that is on storage. Until then, and for snapshots that stay in memory, it is kept here. The last
 * HEALTH_MARKS_MAX are kept, and those that are written go first. What is kept stands in the arenas of the job, too, so
 * that it lives as long as what it was said of. An arena that comes back to the daemon's next incarnation brings it along
 * (save/health_marks_arena.h). */
#ifndef CKPTD_SAVE_HEALTH_MARKS_H
#define CKPTD_SAVE_HEALTH_MARKS_H

#include "format/tensor/rollback.h"
#include "save/health_marks_arena.h"

struct memory;
struct runtime;
struct saves;

enum { HEALTH_MARKS_MAX = ARENA_HEALTH_MARKS };

struct noted_mark {
	struct kept_mark is; /* epoch 0: unused */
	bool due;            /* to be written, as soon as the worker is free */
	bool written;        /* it stands beside the checkpoint */
	bool failed;         /* it could not be written, though the checkpoint is there */
	bool old; /* nobody has said it of this checkpoint to this incarnation of the daemon: others may know better */
};

/* The job that they are of. */
struct marked_job {
	const char *name;
	const struct runtime *runtime;
	struct saves *saves;
	void (*show)(void *arg, unsigned place, const struct kept_mark *mark); /* in all its arenas, at that place */
	void *arg;
};

struct health_marks {
	struct marked_job job;
	struct noted_mark said[HEALTH_MARKS_MAX]; /* each at the place that it has in the arenas */
	uint64_t last;                            /* given_at of the newest */
	bool writing;                             /* a worker is at it: one at a time */
	struct step_id at;                        /* while it is: of which */
};

void health_marks_init(struct health_marks *marks, const struct marked_job *job);
/* A rank says so. All may say the same, and again: what was said before and is not written is tried again. */
void health_marks_take(struct health_marks *marks, const struct wire_mark *mark);
/* The checkpoint is on storage. So that can be written to: what could not be written before is tried again, too. */
void health_marks_durable(struct health_marks *marks, struct step_id id);
/* What was saved as `from` is on storage as `to`, too: what was said of the one holds for the other. */
void health_marks_follow(struct health_marks *marks, struct step_id from, struct step_id to);
/* The arena is one of the job's from now on, or its head was written anew. */
void health_marks_keep(const struct health_marks *marks, struct memory *mem);
/* The arena, one of the job's, is back from an earlier incarnation of the daemon: what was said then is known again, where
 * nothing was said later. */
void health_marks_return(struct health_marks *marks, struct memory *mem);
/* What was said here. NULL: nothing. */
const struct noted_mark *health_marks_find(const struct health_marks *marks, struct step_id id);
/* The newest that was called healthy here, of those that are older than `before`, and not given up. False: there is none. */
bool health_marks_newest(const struct health_marks *marks, const struct rollbacks *back, struct step_id before,
			 struct step_id *id);
/* Nothing is being written, nor has to be. */
bool health_marks_idle(const struct health_marks *marks);

#endif
