/* The parts of a restore, for these alone:
 *	restore.c           the loop's side: from where the part of each rank is taken
 *	restore_state.c     which state follows which
 *	restore_report.c    what this node has, as it reports it to the coordinator
 *	restore_peer.c      what is fetched from other nodes
 *	recut.c             what memory has of another world
 *	restore_worker.c    what workers do
 *	restore_timeline.c  what is noted of it */
#ifndef CKPTD_RESTORE_RESTORE_PRIVATE_H
#define CKPTD_RESTORE_RESTORE_PRIVATE_H

#include "arena/room.h"
#include "restore/former.h"
#include "restore/restore.h"
#include "runtime/room.h"

static inline struct restored_rank restored_rank(const struct restore *restore, uint32_t index)
{
	return restore->of.rank(restore->of.job, index);
}

enum restore_task { TASK_SCAN = 1, TASK_CHECK, TASK_FORMER, TASK_READ, TASK_RECUT };

/* What a worker does for a restore. It holds the arenas' references and touches nothing else of the job. */
struct restore_work {
	struct work work;
	struct restore *restore;
	enum restore_task task;
	const char *store;
	char job[NAME_JOB_MAX];
	uint32_t nlocal;
	struct memory *mems[WIRE_LOCAL_MAX];
	uint32_t slots[WIRE_LOCAL_MAX]; /* CHECK, FORMER, READ */
	struct step_id id;              /* the same */
	uint64_t ranks;                 /* READ: by index, whose parts are wanted */
	uint64_t step;                  /* SCAN */
	struct rollbacks back;          /* the same */
	struct former_source former;    /* FORMER, RECUT */

	struct peer_restore_candidates found; /* of SCAN */
	uint32_t bad;                         /* of RECUT: which part is damaged */
	uint32_t saved_world;                 /* of FORMER, READ, RECUT */
	bool partial;                         /* the same: the ranks do not register all that was saved */
	int rc;                               /* of CHECK: -EBADMSG; of FORMER, READ, RECUT */
	struct err err;
};

void restore_run(struct work *work);
/* NULL: no memory. It has what the restore has, slots and all. */
struct restore_work *restore_work_new(struct restore *restore, enum restore_task task);
void restore_work_free(struct restore_work *w);
/* The only place where the state changes; another transition than those of its table is a defect. */
void restore_set_state(struct restore *restore, enum restore_state state);
void restore_start(struct restore *restore, struct restore_work *w, enum restore_state state);
/* Looks at storage; then tells the coordinator of all that there is. */
void restore_scan(struct restore *restore);
void restore_report_found(struct restore *restore, const struct peer_restore_candidates *found);
/* Leaves of the part of a rank, by index, are in its slot and verified: all ranks may load them. From any thread. */
void restore_there(struct memory *const *mems, uint32_t n, uint32_t rank, uint64_t first, uint64_t count);
void restore_add_why(char *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Asks the holders for what this node lacks (restore->lacking), and goes on when all have answered. */
void restore_peer_start(struct restore *restore);
/* All holders that were named have been asked. */
void restore_peers_done(struct restore *restore);
/* The step is in the claimed slots of all ranks; cannot be brought: the coordinator hears of it. */
void restore_adopt(struct restore *restore);
void restore_give_up(struct restore *restore, int rc, const char *text);
/* No deadline of a rank has passed. */
bool restore_everybody_waits(const struct restore *restore);
/* Gives the claimed slots back, when nothing writes to them any more. */
void restore_end_claim(struct restore *restore);

/* ---- restore/restore_timeline.c: ranks by index, a bit for each */

void restore_note_asked(struct restore *restore);
void restore_note_chosen(struct restore *restore);
/* Their parts are being brought; have been; will not be from there, and why. */
void restore_note_begun(struct restore *restore, uint64_t ranks);
void restore_note_brought(struct restore *restore, uint64_t ranks, enum wire_source source, uint32_t from);
void restore_note_skipped(struct restore *restore, uint64_t ranks, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* id, source, rc and passed_over of *end are set. */
void restore_note_answered(const struct restore *restore, struct recovery_end *end);

#endif
