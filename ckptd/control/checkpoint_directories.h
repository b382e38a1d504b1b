/* Sites: the directories that the coordinator of a job has had made and not yet given up, in its daemon (checkpoint/directory.h). What becomes of each is
 * reported to the coordinator. */
#ifndef CKPTD_CONTROL_CHECKPOINT_DIRECTORIES_H
#define CKPTD_CONTROL_CHECKPOINT_DIRECTORIES_H

#include "base/list.h"
#include "checkpoint/directory.h"

struct coord;
struct disk;

struct sites {
	struct disk *disk;
	int root;
	const char *job;
	struct coord *coord;
	struct list list;
	unsigned n; /* in it */
};

/* The coordinator and the name of its job live as long. */
void sites_init(struct sites *sites, struct disk *disk, int root, const char *job, struct coord *coord);
void sites_free(struct sites *sites); /* nothing of it runs, or the disk was told to forget everything */

/* The coordinator's orders. */
void sites_make(struct sites *sites, struct step_id id);
void sites_seal(struct sites *sites, struct step_id id, const struct wbuf *manifest);
void sites_drop(struct sites *sites, struct step_id id, int rc, const char *why);
void sites_remove(struct sites *sites, struct step_id id);

/* Those of which storage has made no progress for so long fail; at each tick. */
void sites_expire(struct sites *sites, uint64_t stall_ms);
/* Whether its directory is one of them. */
bool sites_have(const struct sites *sites, struct step_id id);

#endif
