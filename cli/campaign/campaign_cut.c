/* A fault of the network: it is broken, and, later, mended, until the job is at work again. */
#include "campaign/campaign_run.h"

#include "base/clock.h"

#include <stdio.h>

int campaign_note_ways(struct campaign *c, const char *event, uint64_t for_ms, struct err *err)
{
	int rc = campaign_note_named(c, err); /* before that */
	for (uint32_t k = 0; !rc && k < c->net.nodes; k++)
		rc = journal_put(&c->journal,
				 json_pack("{s:s, s:i, s:I, s:I}", "event", event, "node", (int)k, "for_ms",
					   (json_int_t)for_ms, "wall_ns", (json_int_t)clock_wall()),
				 err);
	return rc;
}

uint64_t campaign_cut_ms(const struct campaign_fault *f)
{
	return campaign_ways_open(f->entry->kind) ? 0 : f->for_ms;
}

int campaign_cut(struct campaign *c, const struct campaign_fault *f, struct fault_result *result, struct err *err)
{
	int rc = campaign_net_probe(&c->net, err);
	if (!rc)
		rc = campaign_net_break(&c->net, f, err);
	if (!rc)
		rc = campaign_net_probe(&c->net, err);
	struct campaign_ways ways;
	campaign_ways_of(f, c->net.nodes, &ways);
	campaign_ways_text(f, &ways, result->text, sizeof(result->text));
	if (rc)
		(void)campaign_net_mend(&c->net, f, NULL);
	return rc;
}

void campaign_mend(struct campaign *c, const struct campaign_fault *f, struct fault_result *result)
{
	struct err err = {""};
	int rc = campaign_net_held_back(&c->net, f, &err);
	int mended = campaign_net_mend(&c->net, f, rc ? NULL : &err);
	if (!rc)
		rc = mended;
	if (!rc)
		rc = campaign_net_probe(&c->net, &err);
	if (result->outcome == FAULT_PENDING)
		result->outcome = FAULT_FIRED;
	if (rc)
		result->outcome = FAULT_NOT_FIRED;
	if (rc)
		snprintf(result->text, sizeof(result->text), "%.200s", err.text);
}
