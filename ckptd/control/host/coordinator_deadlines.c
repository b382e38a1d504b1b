/* Deadlines of what a coordinator waits for. */
#include "base/clock.h"
#include "cluster/room.h"
#include "control/control.h"
#include "control/election/node_record.h"
#include "control/host/coordinator_host_private.h"
#include "replication/room.h"
#include "runtime/room.h"

#include <stdio.h>

/* To say what is in memory takes a turn of the node's loop. */
enum { COMPARE_MS = 10000, SAY_MS = 500, COME_MS = 3000 };

static void expire_directories(struct coordinator_host *host)
{
	struct policy policy;
	if (!host->directories.n)
		return;
	sources_fill(host->control->runtime->sources, SCOPE_JOB, host->job, &policy);
	directories_expire(&host->directories, policy.stall_timeout_ms);
}

/* One at a time: who is told may change what there is. */
static void expire_comparison(struct coordinator_host *host)
{
	const struct roster *roster = host->control->peers->roster;
	char who[NAME_NODE_MAX + 16] = "a node that is not there";
	struct step_id id;
	uint32_t node;
	if (!coord_overdue(host->coord, COMPARE_MS, &id, &node))
		return;
	if (node != UINT32_MAX)
		snprintf(who, sizeof(who), "node %s", host->spread ? roster->nodes[node].name : "itself");
	coord_give_up(host->coord, id, who);
}

/* Those who are there say at once what they are in; others may be on the way. */
static void expire_resume(struct coordinator_host *host)
{
	uint64_t patience = node_records_settled(host->control) ? SAY_MS : COME_MS;
	if (!host->resume_ns || clock_now() - host->resume_ns < patience * CLOCK_NS_PER_MS)
		return;
	host->resume_ns = 0;
	coord_resume_give_up(host->coord, "not all ranks came to the new coordinator");
}

void host_expire(struct coordinator_host *host)
{
	expire_resume(host);
	expire_directories(host);
	expire_comparison(host);
}
