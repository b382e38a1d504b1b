/* Whether what is in the store of a campaign reads back as it was written. */
#ifndef CKPT_CLI_JUDGE_INTACT_H
#define CKPT_CLI_JUDGE_INTACT_H

#include "judge/judge.h"
#include "store/read/repo.h"

/* Reads every byte of each checkpoint that is committed. One of the nhit that were damaged on purpose may be damaged. An
 * error: it cannot be judged. */
int campaign_intact(struct repo *repo, const struct checkpoint_ref *refs, size_t n, const struct step_id *hit,
		    size_t nhit, struct invariant *out, struct err *err);

#endif
