/* Litter: what crashes leave in a store. Nothing of it is read as a checkpoint. */
#ifndef CKPT_STORE_LITTER_H
#define CKPT_STORE_LITTER_H

#include "store/manage/trash.h"
#include "store/read/repo.h"

enum litter_kind {
	LITTER_TRASH = 1,  /* a directory whose deletion has begun (trash.h): the job's */
	LITTER_ABANDONED,  /* a half-written directory, moved aside: the job's */
	LITTER_UNFINISHED, /* a half-written directory, which may still be written: the job's */
	LITTER_TEMPORARY,  /* a file on its way to its name: of the root, the job or a checkpoint */
};

struct litter {
	enum litter_kind kind;
	char job[NAME_JOB_MAX]; /* "": the root */
	char dir[NAME_DIR_MAX]; /* of a checkpoint; "": directly in the job */
	char name[TRASH_NAME_MAX];
	uint64_t since_ns; /* moved aside, or last written, it or anything in it; wall time */
};

/* Litter of one job; NULL: of the root and of all jobs. In the order of the directories. *out malloc'ed. A job that is
 * not there has none. */
int litter_find(struct repo *repo, const char *job, struct litter **out, size_t *n, struct err *err);
/* The time by which the age of litter is judged. It is the time that the store gives to a file that is written now, which
 * is that of its server. It is this machine's time if that is earlier, or if the store takes no file. A clock that is
 * ahead makes nothing old that others are writing. */
uint64_t litter_now(struct repo *repo);
/* Whether it has lain for so long. Trash has at any age; a temporary file, and what is not finished, never before
 * LITTER_TEMPORARY_NS, since somebody may be writing it. A clock that was set back makes nothing old. */
#define LITTER_TEMPORARY_NS 60000000000ull
bool litter_due(const struct litter *litter, uint64_t now, uint64_t older_ns);
/* Removes a temporary file. 0 also when it is gone already. */
int litter_unlink(struct repo *repo, const struct litter *litter, struct err *err);
const char *litter_word(enum litter_kind kind);

#endif
