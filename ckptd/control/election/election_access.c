/* Who coordinates a job, for the rooms below (participant/coordinator_access.h). */
#include "control/election/election_private.h"

#include "base/clock.h"
#include "cluster/room.h"
#include "control/control.h"
#include "participant/room.h"
#include "registry/room.h"
#include "replication/room.h"
#include "runtime/room.h"

#include <stdio.h>

uint32_t coordinator_of(const struct control *control, const char *job)
{
	if (!control->peers->roster)
		return NO_NODE;
	if (!control->runtime->config.registry)
		return FIRST_NODE;
	const struct job_record *r = election_find(control, job);
	bool lapsed = r && r->node == control->peers->self && !registry_lease_left(control->registry);
	return r && !lapsed ? r->node : NO_NODE;
}

uint64_t coordinator_term(const struct control *control, const char *job)
{
	const struct job_record *r = election_find(control, job);
	return r ? r->term : 0;
}

bool host_here(const struct control *control, const char *job)
{
	return !control->peers->roster || coordinator_of(control, job) == control->peers->self;
}

bool coordinator_in_reach(const struct control *control, const char *job)
{
	uint32_t node = coordinator_of(control, job);
	return host_here(control, job) ||
	       (node != NO_NODE && control->peers->net && net_is_up(control->peers->net, node));
}

const char *coordinator_text(const struct control *control, const char *job, char *text, size_t size)
{
	uint32_t node = coordinator_of(control, job);
	if (node != NO_NODE)
		snprintf(text, size, "node %s, which coordinates it, cannot be reached",
			 control->peers->roster->nodes[node].name);
	else if (control->election && control->election->away[0])
		snprintf(text, size, "no node coordinates it, and the registry is away (%s)", control->election->away);
	else
		snprintf(text, size, "no node coordinates it yet");
	return text;
}
