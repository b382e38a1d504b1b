/* A node is drained, from its last rank to when it may have some again. */
#include "campaign/campaign_run.h"

#include "base/clock.h"

#include <stdio.h>

#define ASK_NS (5 * CLOCK_NS_PER_S)

int campaign_undrain(const struct campaign *c, uint32_t node, struct err *err)
{
	char sock[PATH_MAX], name[NAME_NODE_MAX], text[WIRE_REASON_MAX];
	snprintf(name, sizeof(name), "node-%u", node);
	const struct fault_request q = {.entry = fault_of(FAULT_DRAIN),
					.socket = campaign_node_path(c, node, "s", sock),
					.node = name,
					.deadline = clock_deadline(ASK_NS)};
	return fault_undrain(&q, "campaign", text, err);
}

/* The others train, and it has none of their ranks. */
static int look_gone(struct campaign *c, uint32_t node, uint64_t for_ms, uint64_t *until, struct err *err)
{
	struct campaign_view view;
	int rc = campaign_watch(c, &view, err);
	if (!rc && campaign_trains(&view) && !campaign_has_ranks(&view, node))
		*until = clock_deadline(for_ms * CLOCK_NS_PER_MS);
	return rc;
}

int campaign_drain_look(struct campaign *c, uint32_t node, uint64_t for_ms, uint64_t *until,
			struct fault_result *result, struct err *err)
{
	if (!*until)
		return look_gone(c, node, for_ms, until, err);
	if (clock_now() < *until)
		return 0;
	struct err why = {""};
	if (campaign_undrain(c, node, &why)) { /* a daemon that is away comes back */
		snprintf(result->text, sizeof(result->text), "node-%u stays drained: %.200s", node, why.text);
		return 0;
	}
	result->outcome = FAULT_FIRED;
	snprintf(result->text, sizeof(result->text), "node-%u had no ranks for %lu ms, and may have some again", node,
		 (unsigned long)for_ms);
	return 0;
}
