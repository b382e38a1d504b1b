/* Keeping: what retention has to know of a job's checkpoints, read from the store: their marks and the job's tags. */
#ifndef CKPT_STORE_KEEPING_H
#define CKPT_STORE_KEEPING_H

#include "store/manage/retention.h"
#include "store/read/repo.h"

struct keeping {
	struct retention_item *items; /* the committed ones, oldest first; in_use is the caller's to set */
	size_t n;
	unsigned blind; /* tags that cannot be read: as long as there is one, all checkpoints count as tagged */
};

/* What cannot be read protects: a mark PINNED in whatever state, a checkpoint whose documents answer with an I/O error. Without what the
 * file EPOCH says of rollbacks nothing is decided. A job that is not there has none. */
int keeping_load(struct repo *repo, const char *job, struct keeping *k, struct err *err);
void keeping_free(struct keeping *k);
/* Before an older one goes: the newest that stays is made durable, and so is the newest that is healthy. A manifest may have been linked a
 * moment ago by a commit whose last fsync is still to come, and a mark, too. */
int keeping_settle(struct repo *repo, const char *job, const struct keeping *k, struct err *err);

#endif
