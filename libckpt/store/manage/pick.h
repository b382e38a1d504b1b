/* Which checkpoint of a job is meant by what a person says. */
#ifndef CKPT_STORE_PICK_H
#define CKPT_STORE_PICK_H

#include "store/read/repo.h"

struct pick {
	const char *text; /* the caller's */
	bool latest, healthy, any_epoch;
	bool tag; /* the text is the name of one, which pick_resolve looks up */
	struct step_id id;
};

/* NULL or "latest"; "healthy": the newest one that the training called so, in which nobody has found damage; "1000": the
 * newest epoch of that step; "1000.e0003"; the name of the directory; the name of a tag. -EINVAL: none of these. */
int pick_parse(const char *text, struct pick *pick, struct err *err);
/* Finds out which checkpoint of the job a tag names; anything else stays as it is. -ENOENT: there is no such tag; -EBADMSG. */
int pick_resolve(struct repo *repo, const char *job, struct pick *pick, struct err *err);
/* The newest of n (repo_scan of one job) that is committed and meant. -ENODATA: none is, and "latest" or "healthy" was
 * asked for; -ENOENT: that one is not there: the nearest are named. */
int pick_among(struct repo *repo, const struct pick *pick, const struct checkpoint_ref *refs, size_t n,
	       struct checkpoint_ref *ref, struct err *err);

#endif
