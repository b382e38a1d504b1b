/* Statistics of saves: what became of the saves of one job and how long they took, for metrics, status page and span log.
 * Bounded: a ring and counters. It decides nothing. Belongs to the loop's thread. */
#ifndef CKPTD_SAVE_SAVE_STATS_H
#define CKPTD_SAVE_SAVE_STATS_H

#include "base/err.h"
#include "format/arena/arena.h"
#include "format/message/wire.h"
#include "runtime/room.h"

#include <stdbool.h>

enum { SAVE_STATS_SAVES = 64, SAVE_STATS_TEXT_MAX = 256 };

/* Why a save did not get as far as was asked. */
enum save_failure {
	SAVE_FAILED_CAPTURE = 0, /* a rank could not, was late, or forgot the fence */
	SAVE_FAILED_TORN,        /* the digests of copy and source differ */
	SAVE_FAILED_REPLICAS,    /* what ranks hold alike differs */
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
	char error[SAVE_STATS_TEXT_MAX];
};

struct save_stats {
	const struct runtime *runtime; /* its span log gets a line of each save */
	const char *job;
	const uint32_t *world;                                    /* of the job, as it is now */
	struct histogram captured, replicated, durable, verified; /* since begin */
	uint64_t failed[SAVE_FAILURE_END];
	uint64_t ncaptured, nreplicated, captured_bytes, written_bytes, write_ns;
	uint64_t captured_wall_ns, replicated_wall_ns, durable_wall_ns, verified_wall_ns; /* of the newest; 0: none */
	struct step_id captured_id, replicated_id, durable_id, verified_id, damaged_id;
	unsigned storage_failures; /* in a row */
	int storage_rc;            /* of the last one */
	char storage_error[SAVE_STATS_TEXT_MAX];
	uint64_t unverified_ns; /* since when what is durable waits to be read back (clock_now); 0: nothing waits */
	struct save_record saves[SAVE_STATS_SAVES];
	uint32_t nsaves; /* in the order of their beginning */
};

struct spanlog;
struct snapshot;

/* Whose saves they are. What was counted stays. */
void save_stats_of(struct save_stats *stats, const struct runtime *runtime, const char *job, const uint32_t *world);
/* The level or the error of a snapshot has changed. */
void save_stats_save(struct save_stats *stats, struct snapshot *s);
/* Nothing more will be heard of it, or of the whole job (NULL). */
void save_stats_end(struct save_stats *stats, const struct snapshot *s);
/* A checkpoint on storage was read again: it is damaged, or intact (repaired, say). */
void save_stats_reread(struct save_stats *stats, struct step_id id, bool damaged);

const char *save_failure_name(enum save_failure failure);
const char *level_name(enum level_shown level);
const char *source_name(uint32_t source);

/* Its line in the span log; NULL: none is written (save/save_span.c). */
void spanlog_save(struct spanlog *log, const char *job, const struct save_record *r);

#endif
