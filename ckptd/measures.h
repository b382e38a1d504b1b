/* Measures: what one job has done and how long it took, for metrics, status page and span log. Bounded: a few rings and counters. It
 * decides nothing. Belongs to the loop's thread. */
#ifndef CKPTD_MEASURES_H
#define CKPTD_MEASURES_H

#include "base/err.h"
#include "format/arena.h"
#include "format/wire.h"
#include "histogram.h"

#include <stdbool.h>

enum { MEASURES_SAVES = 64, MEASURES_RECOVERIES = 64, MEASURES_TEXT_MAX = 256 };

/* Why a save did not get as far as was asked. */
enum save_failure {
	SAVE_FAILED_CAPTURE = 0, /* a rank could not, was late, or forgot the fence */
	SAVE_FAILED_TORN,        /* the digests of copy and source differ */
	SAVE_FAILED_EPOCH,       /* a new epoch began */
	SAVE_FAILED_SUPERSEDED,  /* a newer one was ready first */
	SAVE_FAILED_STORAGE,     /* it is in memory only */
	SAVE_FAILED_DAMAGED,     /* read back from storage, it differs */
	SAVE_FAILURE_END
};

/* Times are since begin as the daemon saw it (its doorbell), in nanoseconds; 0: not reached. */
struct save_record {
	struct step_id id; /* epoch 0: unused */
	uint64_t begun_wall_ns;
	enum level_shown level;
	bool to_storage, final;
	uint64_t captured_ns, replicated_ns, durable_ns, verified_ns;
	uint64_t write_ns; /* from the start of its commit until it was durable */
	uint64_t captured_bytes, written_bytes;
	uint32_t world;
	uint32_t late_rank, late_phase; /* who was waited for last, before it was captured */
	int rc;
	char error[MEASURES_TEXT_MAX];
};

/* A restore that the ranks asked for together, whether or not something was lost before. */
struct recovery_record {
	struct step_id id; /* what was restored; epoch 0: nothing */
	uint64_t wall_ns;
	uint32_t epoch, world;
	uint32_t source; /* as in struct wire_restored; 0: refused */
	int rc;
	bool raised; /* an epoch was raised before it: the next three are known */
	uint64_t
		detect_ns; /* from the last heartbeat of who was lost until that was seen: it died in between. 0: not known */
	uint64_t gather_ns; /* from then until all ranks asked for the restore: replacing, registering, joining */
	uint64_t restore_ns;
	char reason[MEASURES_TEXT_MAX], passed_over[MEASURES_TEXT_MAX];
};

struct measures {
	struct histogram captured, replicated, durable, verified; /* since begin */
	struct histogram gather, restore[4];                      /* restore: by source */
	uint64_t failed[SAVE_FAILURE_END];
	uint64_t ncaptured, nreplicated, captured_bytes, written_bytes, write_ns;
	uint64_t captured_wall_ns, replicated_wall_ns, durable_wall_ns, verified_wall_ns; /* of the newest; 0: none */
	struct step_id captured_id, replicated_id, durable_id, verified_id, damaged_id;
	unsigned storage_failures; /* in a row */
	int storage_rc;            /* of the last one */
	char storage_error[MEASURES_TEXT_MAX];
	uint64_t unverified_ns; /* since when what is durable waits to be read back (clock_now); 0: nothing waits */
	struct save_record saves[MEASURES_SAVES];
	uint32_t nsaves; /* in the order of their beginning */
	struct recovery_record recoveries[MEASURES_RECOVERIES];
	uint32_t nrecoveries, recoveries_at;
	/* between a raised epoch and its restore */
	uint64_t raised_ns, detect_ns;
	char reason[MEASURES_TEXT_MAX];
};

struct job;
struct snapshot;

/* Looks at the heartbeats; at each tick. */
void measures_tick(struct job *job, uint64_t now);
/* The level or the error of a snapshot has changed. */
void measures_save(struct job *job, struct snapshot *s);
/* Nothing more will be heard of it, or of the whole job (NULL). */
void measures_end(struct job *job, const struct snapshot *s);
/* A checkpoint on storage was read again: it is damaged, or intact (repaired, say). */
void measures_reread(struct job *job, struct step_id id, bool damaged);
/* An epoch was raised; last_beat_ns: the last heartbeat of who was lost, 0: nobody was. */
void measures_raise(struct job *job, uint64_t last_beat_ns, const char *reason);
/* A restore was answered. start_ns: when all had asked. */
void measures_restore(struct job *job, struct step_id id, uint32_t source, uint64_t start_ns, int rc,
		      const char *passed_over);

const char *save_failure_name(enum save_failure failure);
const char *level_name(enum level_shown level);
const char *source_name(uint32_t source);
/* i-th of the ring, oldest first; i < nrecoveries. */
const struct recovery_record *measures_recovery_at(const struct measures *m, uint32_t i);

#endif
