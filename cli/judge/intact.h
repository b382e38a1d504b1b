/* Whether what is in the store of a campaign reads back as it was written, and whether each bit that was flipped on
 * purpose was found there. */
#ifndef CKPT_CLI_JUDGE_INTACT_H
#define CKPT_CLI_JUDGE_INTACT_H

#include "judge/damage.h"
#include "judge/judge.h"

/* Reads every byte of each checkpoint that is committed. An error: it cannot be judged. */
int campaign_intact(struct repo *repo, const struct checkpoint_ref *refs, size_t n, const struct damages *all,
		    struct invariant *out, struct err *err);

#endif
