#include "campaign/campaign_intact.h"

#include "store/check/verify.h"

#include <errno.h>
#include <stdio.h>

static bool was_hit(const struct step_id *hit, size_t nhit, struct step_id id)
{
	for (size_t i = 0; i < nhit; i++)
		if (!step_compare(hit[i], id))
			return true;
	return false;
}

int campaign_intact(struct repo *repo, const struct checkpoint_ref *refs, size_t n, const struct step_id *hit,
		    size_t nhit, struct invariant *out, struct err *err)
{
	const struct verify_options options = {.depth = VERIFY_DATA, .share = 1};
	for (size_t i = 0; i < n; i++) {
		struct verify_result result;
		struct step_id id = refs[i].id;
		if (refs[i].state != CHECKPOINT_COMMITTED)
			continue;
		int rc = verify_checkpoint(repo, refs[i].job, id, &options, &result, err);
		if (rc && rc != -EBADMSG)
			return rc;
		out->looked_at++;
		if (!rc || was_hit(hit, nhit, id) || !out->held)
			continue;
		out->held = false;
		snprintf(out->text, sizeof(out->text), "step %lu of epoch %u is damaged, and nobody has damaged it",
			 (unsigned long)id.step, id.epoch);
	}
	return 0;
}
