/* Recovery log: what a job has restored, why, from where, and how long each part of the way took. The parts follow each
 * other without a gap, by this node's clock; what a node cannot see is not known, and the sum says less:
 *
 *   last heartbeat of who was lost (a rank here; where the job is coordinated, a node) ── detect ── its loss is seen here ──
 *       decide ── the new epoch is told here ── gather ── all ranks here
 *   ask for the restore ── choose ── the coordinator has named the step ── fetch ── all nodes have it in slots ── load ── the last
 *   rank here has it in its own memory ── first step ── the last rank here has done a new step
 *
 * Ranks load while it is fetched: load is what is left of that then. The last two are in the arenas (struct arena_entry)
 * and come after the answer: until then the recovery is under way. Bounded: a ring. It decides nothing. Belongs to the
 * loop's thread. */
#ifndef CKPTD_RESTORE_RECOVERY_LOG_H
#define CKPTD_RESTORE_RECOVERY_LOG_H

#include "format/message/peer_coord.h"
#include "format/message/wire.h"
#include "format/tensor/names.h"
#include "runtime/room.h"

#include <stdbool.h>

struct arena_entry;
struct spanlog;

enum { RECOVERIES_MAX = 64, RECOVERY_REASON_MAX = 256, RECOVERY_SKIPPED_MAX = 160 };
/* How long a first step is waited for; a loop that gives no heartbeat never tells of one. */
#define RECOVERY_STEP_NS 600000000000ull
#define RECOVERY_RETURN_NS 5000000000ull
#define RECOVERY_NOWHERE UINT32_MAX

enum recovery_state {
	RECOVERY_UNDER_WAY = 0, /* restored; not every rank has done a step */
	RECOVERY_DONE,
	RECOVERY_CUT,     /* another epoch began, the job ended, or no step was told of in time */
	RECOVERY_REFUSED, /* nothing was restored */
};

/* How one rank of this node came to its part. Durations; 0: not known. */
struct recovery_part {
	uint32_t rank;
	uint32_t source;   /* enum wire_source */
	uint32_t from;     /* WIRE_FROM_PEER: the node, in the roster; RECOVERY_NOWHERE */
	uint64_t fetch_ns; /* into its slot, from where it was found in the end; of memory: to check it */
	uint64_t load_ns, first_step_ns;
	char skipped[RECOVERY_SKIPPED_MAX]; /* better places that it did not come from, and why; "": none */
};

/* A restore that the ranks asked for together, whether or not something was lost before. */
struct recovery_record {
	struct step_id id; /* what was restored; epoch 0: nothing */
	uint64_t wall_ns;  /* when it was answered */
	uint64_t answered_ns;
	uint32_t epoch, world;
	uint32_t source; /* the lowest rung that any node had to go to; 0: refused, or there was nothing to restore */
	/* the world of which memory had it, cut anew for the ranks (restore/recut.h); 0: it was not */
	uint32_t cut_from;
	int rc;
	enum recovery_state state;
	bool seen;          /* somebody was lost here: decide is known */
	bool raised;        /* an epoch was raised before it: gather is known */
	bool loss;          /* that was since something was lost */
	uint64_t detect_ns; /* 0: not known; it died in between */
	uint64_t decide_ns, gather_ns, choose_ns, fetch_ns;
	uint64_t load_ns, first_step_ns; /* 0: not known (yet) */
	char reason[RECOVERY_REASON_MAX], passed_over[WIRE_TEXT_MAX];
	struct recovery_part *parts; /* owned; NULL with no memory for them */
	uint32_t nparts;
	bool noted; /* given to who has the catalog, as it is in the end; or nobody has one */
};

/* Whose log it is. */
struct logged_job {
	/* Where a rank tells that it has loaded and stepped. NULL: it is not here, or has no arena. */
	struct arena_entry *(*entry)(void *arg, uint32_t rank);
	/* One is over: it is written down. False: that is to be tried `again`, at a later tick. */
	bool (*note)(void *arg, const struct recovery_record *r, bool again);
	void *arg;
};

struct recovery_log {
	struct logged_job of;
	struct recovery_record ring[RECOVERIES_MAX];
	uint32_t n, at;
	struct histogram gather, restore[4],
		total; /* restore: choose and fetch, by source. total: of those that are done */
	/* that a restore followed from, by its source (0: there was nothing to restore) and by what was lost */
	uint64_t losses[4][LOST_KINDS];
	uint64_t since_ns; /* they are counted since then; clock_now() */
	/* between a loss and its restore; clock_now(), 0: none */
	uint64_t beat_ns, lost_ns; /* of the first that was lost here, or, where the job is coordinated, of a node */
	uint64_t raised_ns;
	enum lost_kind loss; /* the first; LOST_NONE: none was lost */
	char reason[RECOVERY_REASON_MAX];
};

void recoveries_init(struct recovery_log *all, const struct logged_job *of);
/* A rank of this node is lost, or a node whose loss is seen here for all; the last heartbeat, 0: none was given. */
void recoveries_lost(struct recovery_log *all, uint64_t beat_ns);
/* No epoch follows from what was lost. */
void recoveries_no_loss(struct recovery_log *all);
/* A new epoch is told here; loss: since that was lost. Another one before the last was restored: the first one counts. */
void recoveries_raise(struct recovery_log *all, const char *reason, enum lost_kind loss);

/* How a restore ended. */
struct recovery_end {
	struct step_id id;
	uint32_t epoch, world; /* that the job is in */
	uint32_t source;
	uint32_t cut_from;
	int rc;
	uint64_t asked_ns, chosen_ns; /* clock_now(); chosen 0: it did not come to that */
	const char *passed_over;
	const struct recovery_part *parts; /* nparts: copied */
	uint32_t nparts;
};
/* The ranks are being answered. */
void recoveries_answered(struct recovery_log *all, const struct recovery_end *end);
/* The ranks are on their way back to work: what can wait leaves processors, memory and net to them. From the new epoch to
 * the first step of all here, but no longer than RECOVERY_RETURN_NS after the new epoch, and after the answer. */
bool recoveries_return(const struct recovery_log *all, uint64_t now);
/* Looks whether ranks have loaded and stepped, and notes what could not be noted before; at each tick. */
void recoveries_tick(struct recovery_log *all, uint64_t now);
/* The job ends, or its ranks are about to change. */
void recoveries_end(struct recovery_log *all);
void recoveries_free(struct recovery_log *all);

/* i-th of the ring, oldest first; i < n. */
const struct recovery_record *recoveries_at(const struct recovery_log *all, uint32_t i);
/* "rank", "hang", "node", "daemon". */
const char *lost_kind_name(enum lost_kind kind);
uint64_t recoveries_losses_from(const struct recovery_log *all, uint32_t source);
uint64_t recoveries_losses_of(const struct recovery_log *all, enum lost_kind kind);
/* Seconds in which losses were counted, by that many; by less than one: 0, it is not known. */
double recoveries_between(const struct recovery_log *all, uint64_t losses, uint64_t now);
const char *recovery_state_name(enum recovery_state state);
/* What is known of it, from its first part that is; 0: it is not done. */
uint64_t recovery_total_ns(const struct recovery_record *r);

/* Its line in the span log; NULL: none is written (restore/recovery_span.c). */
void spanlog_recovery(struct spanlog *log, const char *job, const struct recovery_record *r);

#endif
