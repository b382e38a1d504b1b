/* The part of a round that reads the store, on a worker: which directories of a job go. Private to upkeep/gc.c and upkeep/gc_plan.c. */
#ifndef CKPTD_UPKEEP_GC_PLAN_H
#define CKPTD_UPKEEP_GC_PLAN_H

#include "runtime/room.h"
#include "store/manage/retention.h"
#include "store/manage/trash.h"
#include "store/read/repo.h"

enum { GC_VICTIMS_MAX = 32, GC_USED_MAX = 64 };

struct gc_victim {
	char name[TRASH_NAME_MAX]; /* "": it is in the trash already */
	char trash[TRASH_NAME_MAX];
	bool checkpoint, moved;
	struct step_id id;
	struct trash_file *files; /* the first TRASH_LISTED of them */
	size_t nfiles;
};

struct gc_plan {
	struct work work;
	/* set by the caller */
	const char *store;
	char job[NAME_JOB_MAX]; /* "": the whole store, for litter only */
	bool retain, litter;
	struct retention_policy policy;
	uint64_t collect_after_ns;
	void *arg;
	struct step_id used[GC_USED_MAX];
	size_t nused;
	uint32_t earlier_told; /* see struct job; after the plan as it is then */

	/* to be read */
	int rc; /* -EWOULDBLOCK: another process is removing */
	struct err err;
	struct gc_victim victims[GC_VICTIMS_MAX];
	size_t nvictims;
	bool more;                   /* there was more than fits */
	char (*dirty)[NAME_JOB_MAX]; /* of the whole store: jobs with litter that is due */
	size_t ndirty;

	/* private */
	bool open;
	struct repo repo;
	int lock;
};

/* On a worker. The repository stays open and the lock is held until gc_plan_unlock, on a worker, too. */
void gc_plan_make(struct gc_plan *plan);
void gc_plan_unlock(struct gc_plan *plan);
/* Any thread; no work of it runs. */
void gc_plan_free(struct gc_plan *plan);

#endif
