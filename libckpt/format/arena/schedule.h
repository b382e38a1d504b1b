/* Schedule: which steps of a run of them are saved, as the job's coordinator has decided and each rank reads in its own arena.
 *
 * The schedules of an epoch follow each other without a gap: each begins where the one before ends, has the next number,
 * and is never changed. A rank answers for a step from the one schedule that has it, or not at all. So two ranks that
 * answer for a step of an epoch answer alike, however late either of them is told. The next one is asked for long before
 * it is needed: as soon as some rank asks for the step `wanted`. */
#ifndef CKPT_FORMAT_SCHEDULE_H
#define CKPT_FORMAT_SCHEDULE_H

#include "base/bytes.h"
#include "base/err.h"
#include "format/arena/arena.h"

#include <stdbool.h>

struct schedule {
	uint32_t epoch, number;       /* number 0: none */
	uint64_t from, until, wanted; /* steps: from <= wanted < until */
	/* Every so many steps, counted from a step that is not behind `from`. 0: never; both 0: the interval of the job
	 * is not automatic. */
	uint64_t memory_from, memory_every, storage_from, storage_every;
};

enum schedule_due { DUE_MEMORY = 1, DUE_STORAGE = 2 };

/* What is due at a step that the schedule has; what goes to storage is in memory, too. Step 0 has nothing to save. */
unsigned schedule_due(const struct schedule *s, uint64_t step);
/* The next one, for `steps` steps behind those that a rank may ask for by now (`step` among them), with these intervals.
 * One that hardly differs from the last is not changed. A new one begins with a save, so that no gap is longer than the
 * longer of both. */
struct schedule schedule_next(const struct schedule *last, uint32_t epoch, uint64_t step, uint64_t steps,
			      uint64_t memory_every, uint64_t storage_every);

/* Daemon: enters it, in place of the eighth before it. Who waits is to be woken. */
void schedule_put(struct arena_head *head, const struct schedule *s);
/* The newest of the epoch; number 0: none. */
struct schedule schedule_newest(const struct arena_head *head, uint32_t epoch);
/* The one that has the step. -EAGAIN: there is none yet; -ERANGE: it is not kept any more. */
int schedule_find(const struct arena_head *head, uint32_t epoch, uint64_t step, struct schedule *out);

/* Rank: it asks for a step. */
void schedule_ask(struct arena_head *head, uint32_t epoch, uint64_t step, uint64_t now);
/* Daemon: the last that it has asked for in this epoch, and when. False: none. */
bool schedule_asked(const struct arena_head *head, uint32_t epoch, uint64_t *step, uint64_t *ns);

/* Within messages. A check fails with -EBADMSG. */
void schedule_encode(struct wbuf *out, const struct schedule *s);
void schedule_decode(struct rbuf *r, struct schedule *s);
/* Also of none, where that is allowed. */
int schedule_check(const struct schedule *s, bool may_be_none, struct err *err);

#endif
