#include "dispatch/coordinator_link.h"

#include "base/log.h"
#include "clients/room.h"
#include "cluster/room.h"
#include "control/room.h"
#include "dispatch/dispatch.h"
#include "job/room.h"
#include "participant/room.h"
#include "replication/room.h"

#include <stdio.h>

void coordinator_link_up(struct job *job)
{
	saves_apart(&job->saves, false);
	resize_apart(job, true);
	resize_say(job);
	standstill_anew(job);
	straggler_watch_anew(job);
	saves_follow(&job->saves); /* it says what all have copied by now */
	if (job->nlocal)
		participation_join(job);
}

void coordinator_link_down(struct job *job)
{
	char who[WIRE_TEXT_MAX];
	saves_apart(&job->saves, !job->linked);
	halt_apart(job);
	finish_apart(job);
	standstill_anew(job);
	straggler_watch_anew(job);
	job_pause(job, UINT64_MAX); /* nobody is there who could begin the next epoch */
	if (!job->linked)
		log_warn("job %s: %s: no save is completed until that is over", job->name,
			 coordinator_text(job->control, job->name, who, sizeof(who)));
}

static void look(struct job *job)
{
	bool reached = coordinator_in_reach(job->control, job->name);
	uint64_t term = coordinator_term(job->control, job->name);
	bool was = job->linked && (!reached || term != job->linked_term);
	bool is = reached && (!job->linked || term != job->linked_term);
	job->linked = reached;
	job->linked_term = term;
	if (was)
		coordinator_link_down(job);
	if (is)
		coordinator_link_up(job);
}

void coordinator_link_node(struct dispatch *dispatch, uint32_t node)
{
	bool lost = !net_is_up(dispatch->peers->net, node);
	if (lost)
		spills_abandon_lost(dispatch->jobs);
	if (lost)
		forward_down(dispatch->operators, node);
	list_for(it, &dispatch->jobs->list) {
		struct job *job = list_entry(it, struct job, link);
		if (job->spread && coordinator_of(dispatch->control, job->name) == node)
			look(job);
	}
}

bool coordinator_link_minds(const struct dispatch *dispatch, uint32_t node)
{
	list_for(it, &dispatch->jobs->list) {
		const struct job *job = list_entry(it, struct job, link);
		if (job->spread && coordinator_of(dispatch->control, job->name) == node)
			return true;
	}
	return false;
}

static void announce(struct dispatch *dispatch, const char *name)
{
	struct peer_order order = {.type = PEER_ANNOUNCE};
	snprintf(order.job, sizeof(order.job), "%s", name);
	for (uint32_t n = 0; dispatch->peers->net && n < dispatch->peers->roster->n; n++)
		if (net_is_up(dispatch->peers->net, n))
			host_order(dispatch->control, true, n, &order);
}

void coordinator_link_moved(struct dispatch *dispatch, const char *name)
{
	struct job *job = job_find(dispatch->jobs, name);
	spills_abandon(dispatch->jobs, name);
	if (host_here(dispatch->control, name))
		announce(dispatch, name);
	if (job && job->spread)
		look(job);
}
