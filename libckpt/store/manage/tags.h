/* Tags: names of checkpoints, one mark each in the directory of the job (format/files/marks.h), so that a name is unique and moves from
 * one checkpoint to another in one rename. */
#ifndef CKPT_STORE_TAGS_H
#define CKPT_STORE_TAGS_H

#include "store/read/repo.h"

/* A tag as it was found. */
struct tag_found {
	struct tag tag; /* only its name, from the file, when rc is negative */
	int rc; /* -EBADMSG: damaged, so nobody knows which checkpoint it protects; else why it could not be read */
};

/* All tags of the job, by name. *out malloc'ed. A job that is not there has none. */
int tags_list(struct repo *repo, const char *job, struct tag_found **out, size_t *n, struct err *err);
/* Index of the first tag at or after `from` that names the checkpoint; n: none. */
size_t tags_next(const struct tag_found *tags, size_t n, size_t from, struct step_id id);
/* -EINVAL: no tag's name; -ENOENT: there is no such tag; -EBADMSG: it is damaged. */
int tag_read(struct repo *repo, const char *job, const char *name, struct tag *tag, struct err *err);
/* Writes it, durably; `move`: over what is there. -EEXIST: it is there. */
int tag_put(struct repo *repo, const struct tag *tag, bool move, struct err *err);
/* Removes it, durably. -ENOENT. */
int tag_drop(struct repo *repo, const char *job, const char *name, struct err *err);

#endif
