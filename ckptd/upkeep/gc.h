/* Collection: checkpoints that retention does not keep, and what crashes left, leave the store. One for the daemon, which
 * walks its jobs; a round is for one job:
 *
 *   IDLE → PLAN → OPEN_JOB → MOVE … → SYNC → UNLOCK → SWEEP … → CLOSE_JOB → IDLE
 *
 * PLAN (worker): takes the lock of all who remove (store/manage/trash.h; when another one has it, the round is put off),
 * reads what there is and decides. MOVE: each directory is renamed to its name in the trash; what has come into use since
 * the plan stays. SYNC: the job's directory; without it nothing is deleted. UNLOCK (worker). SWEEP: upkeep/gc_delete.h.
 * An error or the daemon's end cuts a round short at any point: what is in the trash by then is found by a later round or
 * a later daemon.
 *
 * A round for a job begins when a checkpoint has become verified (durable, where nothing is read back), when the job
 * comes, and when its policy changes. A round for litter of the whole store begins at start and every ten minutes. */
#ifndef CKPTD_UPKEEP_GC_H
#define CKPTD_UPKEEP_GC_H

#include "base/err.h"

#include <stdbool.h>

struct jobs;
struct gc;

/* The store is open and locked. */
int gc_new(struct jobs *jobs, struct gc **out, struct err *err);
/* gc_idle, or the disk was told to forget everything. */
void gc_free(struct gc *gc);
/* All that follows tolerates NULL: no store; so does gc_want (checkpoint/storage.h). */
/* Begins rounds, goes on with what is held back; each tick. */
void gc_tick(struct gc *gc);
/* Becomes readable when gc_poll has something to do. */
int gc_event_fd(struct gc *gc);
void gc_poll(struct gc *gc);
/* Nothing is under way. */
bool gc_idle(const struct gc *gc);

#endif
