/* Campaign losses: whether each spike of the loss that was made on purpose was named, by the lines of a journal. */
#ifndef CKPT_CLI_JUDGE_LOSSES_H
#define CKPT_CLI_JUDGE_LOSSES_H

#include "journal/journal.h"
#include "judge/judge.h"

#include <stdint.h>

/* From when a fault was caused until its outcome was known. */
struct campaign_span {
	uint64_t from, to;
	bool spike; /* that has fired */
};

struct campaign_losses {
	struct campaign_span *faults; /* also those that have not fired: a spike is not waited for in their company */
	size_t nfaults, room_faults;
	uint64_t *named; /* when a daemon named a spike */
	size_t nnamed, room_named;
};

/* A line of the journal, of whatever event. 0 or -ENOMEM. */
int campaign_losses_take(struct campaign_losses *losses, const json_t *line);
/* A spike that came together with another fault may have been cut off: whether it was named counts neither way. */
void campaign_losses_judge(const struct campaign_losses *losses, struct invariant *out);
void campaign_losses_free(struct campaign_losses *losses);

#endif
