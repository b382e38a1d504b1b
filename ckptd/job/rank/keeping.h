/* Keeping: a plan gives the job another world, or this node other ranks. A snapshot that the old ranks have complete in
 * memory, and that is not on storage, is kept. It is kept with the copies for others (replication/replication.h), so that
 * the new ranks find it wherever they are. */
#ifndef CKPTD_JOB_KEEPING_H
#define CKPTD_JOB_KEEPING_H

#include "arena/room.h"
#include "base/err.h"
#include "format/message/wire.h"

struct job;
struct replica_item;

struct keeping {
	uint32_t n;
	struct memory *mems[WIRE_LOCAL_MAX];                 /* references */
	struct step_id ids[WIRE_LOCAL_MAX][ARENA_SLOTS_MAX]; /* by slot; epoch 0: not kept */
};

/* Before the job gives up its snapshots: their slots are not given back. */
void keeping_begin(const struct job *job, struct keeping *k);
/* The arenas are the job's no more. */
void keeping_end(const struct job *job, struct keeping *k);
/* For replica_config.own; arg: struct jobs. What would be kept if a plan came now: ranks of other nodes may need it cut anew
 * although nothing changes here. */
void keeping_list(void *arg, const char *job, void (*fn)(void *to, const struct replica_item *item), void *to);
/* Appends to a refusal of memory what of it is kept so, if anything is. */
void keeping_explain(const struct job *job, struct err *err);

#endif
