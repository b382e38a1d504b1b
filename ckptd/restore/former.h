/* Former: what the ranks that a job had before have left in memory, for ranks that cannot go on in those arenas. There
 * are more or fewer of these ranks, or they have registered other tables. The arenas are kept as they are, and a restore
 * reads out of them as out of a checkpoint (restore/former_read.c).
 *
 *   the arenas of a job, all complete snapshots in them ── former_take ──► kept by the next job of that name, or parked until there is one
 *     ──► let go: that job has gone on from there, or from something newer, and has it in arenas of its own; or nothing has come
 *         for `linger`
 *     ──► return: ranks come that fit them after all, and take them back as their arenas
 *
 * A job may have several: ranks that came after the first ones, and could not use what these had left, may have saved and
 * died, too. What is in them counts as memory in use. What a job does with them is in job/rank/job_former.h. Belongs to the
 * loop's thread. */
#ifndef CKPTD_RESTORE_FORMER_H
#define CKPTD_RESTORE_FORMER_H

#include "arena/room.h"
#include "base/err.h"
#include "format/arena/arena.h"
#include "format/message/peer_coord.h"

#include <stdbool.h>
#include <stdint.h>

struct runtime;
struct wire_hello;

/* A snapshot that is complete in all of the arenas. */
struct former_step {
	struct step_id id;
	uint32_t slots[WIRE_LOCAL_MAX];
	bool stored;  /* it is on storage, too */
	bool damaged; /* it was found to be */
	bool partial; /* save/snapshot.h */
};

struct former {
	struct former *next; /* of the same job, the newest first; or parked (struct formers) */
	char job[NAME_JOB_MAX];
	uint32_t world, nlocal;
	bool spread;
	uint32_t epoch; /* the last that the job was in */
	struct memory *mems[WIRE_LOCAL_MAX];
	bool kept[WIRE_LOCAL_MAX]; /* by the service manager */
	uint32_t n;
	struct former_step steps[ARENA_SLOTS_MAX]; /* ordered, the newest last */
	uint64_t bytes;                            /* of runtime.memory.arenas */
	uint64_t linger_ns;
	uint64_t parked_ns; /* since when no job has it */
	/* since when its job has something newer, without having restored anything; 0: it has not */
	uint64_t superseded_ns;
};

/* What no job has at the moment. */
struct formers {
	struct runtime *runtime;
	struct former *first;
};

/* One step of one of them, for a worker. The memories are references. Or what is in memory of a former world, on whatever
 * nodes (restore/recut.h): then several may be of one rank. */
struct former_source {
	struct step_id id;
	uint32_t world, n;
	uint32_t saved_world; /* of which the blobs of ranks are there */
	bool partial;
	struct memory **mems; /* n of each */
	uint32_t *slots;
};

/* Its arenas are memory in use, from now until it is freed. */
void former_count(struct runtime *runtime, struct former *former);
void former_end(struct runtime *runtime, struct former *former);
/* The list, until a job of that name comes (restore/former_park.c). */
void former_park(struct formers *formers, struct former *list);
/* Takes all that the job can read: of this world, with so many ranks here, on this node alone or not. */
struct former *former_unpark(struct formers *formers, const char *job, uint32_t world, uint32_t nlocal, bool spread);
/* Whether a job of this world may begin, where something is parked that it could not read. -EBUSY, with what that is. */
int former_allows(const struct formers *formers, const struct wire_hello *hello, bool spread, struct err *err);
void formers_tick(struct formers *formers, uint64_t now);
/* The daemon ends. */
void formers_free(struct formers *formers);

/* In its order. */
void former_insert(struct former **list, struct former *former);
/* The last epoch of any of them. */
uint32_t former_epoch(const struct former *list);
/* The bytes of all. */
uint64_t formers_bytes(const struct former *list);
/* What stands for the step before what does not; *of: which of them has it. NULL: none. */
struct former_step *former_find(struct former *list, struct step_id id, struct former **of);
/* Appends to a refusal of memory what of it is in use for these. */
void former_explain(const struct former *list, struct err *err);
/* NULL: all are damaged. */
const struct former_step *former_newest(const struct former *former);
/* "step 7 of epoch 2, left in memory by a world of 4". Returns dst. */
const char *former_text(const struct former *former, char *dst, size_t size);

/* ---- for recover */

/* What can be restored from them; what the job has in its own arenas is not repeated. */
void former_found(const struct former *list, bool (*wanted)(void *arg, struct step_id id), void *arg,
		  struct peer_restore_candidates *found);
/* -ENOENT: none has this one. -ENOMEM. */
int former_source(struct former *list, struct step_id id, struct former_source *out);
/* Room for n parts, of which there are none yet. -ENOMEM. */
int former_source_make(struct former_source *source, uint32_t n);
/* One more of them: a reference is taken. */
void former_source_add(struct former_source *source, struct memory *mem, uint32_t slot);
void former_source_end(struct former_source *source);
void former_damaged(struct former *list, struct step_id id);

/* Fills one slot of each rank, digests included; `there` hears of what stands in a slot. -EINVAL: the tables do not fit
 * each other, both sides named; -EBADMSG: it is damaged, and *bad (NULL: nobody asks) says which part is. Nothing is
 * written then. On a worker. */
struct former_target {
	struct memory *const *mems;
	const uint32_t *slots;
	uint32_t n;
	void (*there)(const struct former_target *target, uint32_t rank, uint64_t first, uint64_t count);
};
int former_read(const struct former_source *source, const struct former_target *target, uint32_t *bad, struct err *err);
/* Whether all that the ranks want is there. -ENODATA: some of it is not, as far as it was looked at. -EINVAL: the tables
 * contradict each other, whatever else there is. On a worker. */
int former_covers(const struct former_source *source, const struct former_target *target, struct err *err);

#endif
