/* Deadlines of what a coordinator waits for. */
#include "cluster/room.h"
#include "control/coordinator_host_private.h"
#include "daemon.h"

#include <stdio.h>

/* To say what is in memory takes a turn of the node's loop. */
enum { COMPARE_MS = 10000 };

static void expire_directories(struct coordinator_host *host)
{
	struct policy policy;
	if (!host->directories.n)
		return;
	sources_fill(host->daemon->sources, SCOPE_JOB, host->job, &policy);
	directories_expire(&host->directories, policy.stall_timeout_ms);
}

/* One at a time: who is told may change what there is. */
static void expire_comparison(struct coordinator_host *host)
{
	const struct roster *roster = host->daemon->roster;
	char who[NAME_NODE_MAX + 16] = "a node that is not there";
	struct step_id id;
	uint32_t node;
	if (!coord_overdue(host->coord, COMPARE_MS, &id, &node))
		return;
	if (node != UINT32_MAX)
		snprintf(who, sizeof(who), "node %s", host->spread ? roster->nodes[node].name : "itself");
	coord_give_up(host->coord, id, who);
}

void host_expire(struct coordinator_host *host)
{
	expire_directories(host);
	expire_comparison(host);
}
