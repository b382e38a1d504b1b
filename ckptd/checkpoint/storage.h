/* Storage: the store of this node, and how fast it may be written and read. */
#ifndef CKPTD_CHECKPOINT_STORAGE_H
#define CKPTD_CHECKPOINT_STORAGE_H

#include "checkpoint/file/compress_buffers.h"
#include "checkpoint/store_lock.h"
#include "runtime/room.h"
#include "store/read/repo_place.h"

struct catalog;
struct disk;
struct gc;
struct policy;
struct scrub;
struct space;

struct storage {
	struct disk *disk;
	int root;                /* handle of the repository; -1: memory only */
	struct repo_place place; /* whether the path of the store still leads to it */
	struct store_lock lock;  /* no other daemon writes in it */
	struct throttle writes;  /* what commits write */
	struct meter reads;      /* what is read back */
	struct packing packing;  /* by the workers of the pool */
	struct space *space;     /* how full it is; NULL: memory only */
	struct catalog *catalog; /* catalog/catalog.h; NULL: none */
	struct gc *gc;           /* upkeep/gc.h; NULL: no store */
	struct scrub *scrub;     /* upkeep/scrub.h; NULL: no store */
};

/* What the policy of a job does not keep is to go (upkeep/gc.c); NULL: no store. The job may end before its round comes. */
void gc_want(struct gc *gc, const char *job, const struct policy *policy);
/* A restore has found damage in it: all of it is read, repaired if an intact copy exists, and marked, so that retention and
 * people know (upkeep/scrub.c). NULL: no store. */
void scrub_want(struct scrub *scrub, const char *job, struct step_id id);

#endif
