/* The parts of recover: the loop's side (restore/restore.c), what there is (restore/restore_sources.c), what is brought from other nodes (restore/restore_peer.c), what workers do
 * (restore/restore_worker.c), what is noted of it (restore/restore_timeline.c). For these alone. */
#ifndef CKPTD_RESTORE_RESTORE_PRIVATE_H
#define CKPTD_RESTORE_RESTORE_PRIVATE_H

#include "job/job.h"
#include "restore/restore.h"
#include "runtime/workers.h"

enum recover_task { TASK_SCAN = 1, TASK_CHECK, TASK_FORMER, TASK_READ };

/* What a worker does for a recovery. It holds the arenas' references and touches nothing else of the job. */
struct recover_work {
	struct work work;
	struct recover *recover;
	enum recover_task task;
	const char *store;
	char job[NAME_JOB_MAX];
	uint32_t nlocal;
	struct memory *mems[WIRE_LOCAL_MAX];
	uint32_t slots[WIRE_LOCAL_MAX]; /* CHECK, FORMER, READ */
	struct step_id id;              /* the same */
	uint64_t ranks;                 /* READ: by index, whose parts are wanted */
	uint64_t step;                  /* SCAN */
	struct former_source former;    /* FORMER */

	struct peer_found found; /* of SCAN */
	uint32_t saved_world;    /* of FORMER, READ */
	bool partial;            /* the same: the ranks do not register all that was saved */
	int rc;                  /* of CHECK: -EBADMSG; of FORMER, READ */
	struct err err;
};

void recover_run(struct work *work);
/* NULL: no memory. It has what recover has, slots and all. */
struct recover_work *recover_work_new(struct recover *recover, enum recover_task task);
void recover_start(struct recover *recover, struct recover_work *w, enum recover_state state);
/* Looks at storage; then tells the coordinator of all that there is. */
void recover_scan(struct recover *recover);
void recover_report_found(struct recover *recover, const struct peer_found *found);
/* Leaves of the part of a rank, by index, are in its slot and verified: all ranks may load them. From any thread. */
void recover_there(struct memory *const *mems, uint32_t n, uint32_t rank, uint64_t first, uint64_t count);
void recover_add_why(char *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Asks the holders for what this node lacks (recover->lacking), and goes on when all have answered. */
void recover_peer_start(struct recover *recover);
/* All holders that were named have been asked. */
void recover_peers_done(struct recover *recover);
/* Gives the claimed slots back, when nothing writes to them any more. */
void recover_end_claim(struct recover *recover);

/* ---- restore/restore_timeline.c: ranks by index, a bit for each */

void recover_note_asked(struct recover *recover);
void recover_note_chosen(struct recover *recover);
/* Their parts are being brought; have been; will not be from there, and why. */
void recover_note_begun(struct recover *recover, uint64_t ranks);
void recover_note_brought(struct recover *recover, uint64_t ranks, enum wire_source source, uint32_t from);
void recover_note_skipped(struct recover *recover, uint64_t ranks, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* id, source, rc and passed_over of *end are set. */
void recover_note_answered(const struct recover *recover, struct recovery_end *end);

#endif
