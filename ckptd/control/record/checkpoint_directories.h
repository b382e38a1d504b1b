/* Checkpoint directories: the directories that the coordinator of a job has had made and not yet given up, in its daemon
 * (checkpoint/directory.h). What becomes of each is reported to the coordinator. */
#ifndef CKPTD_CONTROL_CHECKPOINT_DIRECTORIES_H
#define CKPTD_CONTROL_CHECKPOINT_DIRECTORIES_H

#include "base/list.h"
#include "checkpoint/room.h"

struct coord;
struct control;
struct disk;
struct pool;
struct repo_place;

struct directories {
	struct disk *disk;
	int root;
	const char *job;
	struct coord *coord;
	uint64_t maker;    /* as in struct directory */
	struct pool *pool; /* likewise */
	const char *store;
	struct repo_place *place;
	const struct control
		*elected;  /* nobody else coordinates the job for as long as it does; NULL: nobody else ever does */
	uint32_t compared; /* the epoch of which a checkpoint was; its nodes' tables stay what they are */
	struct list list;
	unsigned n; /* in it */
};

/* The coordinator and the name of its job live as long. */
void directories_init(struct directories *directories, struct disk *disk, int root, const char *job,
		      struct coord *coord);
void directories_free(
	struct directories *directories); /* nothing of it runs, or the disk was told to forget everything */

/* The coordinator's orders. */
void directories_make(struct directories *directories, struct step_id id);
void directories_seal(struct directories *directories, struct step_id id, const struct wbuf *manifest);
void directories_drop(struct directories *directories, struct step_id id, int rc, const char *why);
void directories_remove(struct directories *directories, struct step_id id);

/* All stand as they are, and are let go as soon as nothing runs in them; the coordinator hears of none any more. */
void directories_abandon(struct directories *directories);

/* Those of which storage has made no progress for so long fail; at each tick. */
void directories_expire(struct directories *directories, uint64_t stall_ms);
/* A worker reads for one of them. */
bool directories_at_work(const struct directories *directories);
/* The directory of that name is under work for one of them. */
bool directories_write(const struct directories *directories, const char *name);
/* Whether its directory is one of them. */
bool directories_have(const struct directories *directories, struct step_id id);

#endif
