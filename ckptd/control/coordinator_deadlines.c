/* Deadlines of what a coordinator waits for. */
#include "cluster/roster.h"
#include "control/coordinator_host_private.h"
#include "daemon.h"

#include <stdio.h>

/* To say what is in memory takes a turn of the node's loop. */
enum { COMPARE_MS = 10000 };

static void expire_sites(struct chair *chair)
{
	struct policy policy;
	if (!chair->sites.n)
		return;
	sources_fill(chair->daemon->sources, SCOPE_JOB, chair->job, &policy);
	sites_expire(&chair->sites, policy.stall_timeout_ms);
}

/* One at a time: who is told may change what there is. */
static void expire_comparison(struct chair *chair)
{
	const struct roster *roster = chair->daemon->roster;
	char who[NAME_NODE_MAX + 16] = "a node that is not there";
	struct step_id id;
	uint32_t node;
	if (!coord_overdue(chair->coord, COMPARE_MS, &id, &node))
		return;
	if (node != UINT32_MAX)
		snprintf(who, sizeof(who), "node %s", chair->spread ? roster->nodes[node].name : "itself");
	coord_give_up(chair->coord, id, who);
}

void chair_expire(struct chair *chair)
{
	expire_sites(chair);
	expire_comparison(chair);
}
