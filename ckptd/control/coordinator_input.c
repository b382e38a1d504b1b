/* What is reported, by type; and that a node is lost. */
#include "cluster/net.h"
#include "control/coordinator_host_private.h"
#include "control/membership.h"
#include "job/job.h"

#include <string.h>

/* Of a job that is on its way out, nobody needs the host. One whose ranks have not finished may go on with others: who comes when nobody is left
 * begins another life of it, and is not to end. */
static void leave(struct coordinator_host *host, uint32_t node, bool finished)
{
	bool last = coord_leave(host->coord, node) && !coord_view(host->coord).attending;
	bool goes_on = finished ? membership_left(host->daemon, host->job, node)
				: membership_deserted(host->daemon, host->job, node, last);
	if (last && !goes_on)
		host_over(host);
	else if (last && !finished)
		host->stop = false;
}

/* It may not have been there when the others were asked to end. */
static void attends(struct coordinator_host *host, uint32_t node)
{
	struct peer_order stop = {.type = PEER_STOP, .word.epoch = coord_view(host->coord).epoch};
	host->stop &= !host->ended; /* else that was another life of the job */
	host->ended = false;
	memcpy(stop.job, host->job, sizeof(stop.job));
	if (host->stop)
		host_order(host->daemon, host->spread, node, &stop);
}

void host_hear(struct coordinator_host *host, struct coord_from from, const struct peer_report *r)
{
	struct coord *c = host->coord;
	switch (r->type) {
	case PEER_NODE_JOIN:
		attends(host, from.node);
		coord_recall(c, r->node_join.replicated);
		if (!r->node_join.finished || !coord_finished(c, from, r->node_join.nranks))
			coord_node_join(c, from, r->node_join.nranks, r->node_join.known);
		return;
	case PEER_SHARED_PIECES:
		coord_shares(c, from.node, &r->shares);
		return;
	case PEER_LEAVE:
		leave(host, from.node, r->finished);
		return;
	case PEER_RANK_JOIN:
		coord_want(c, from, r->rank.rank);
		return;
	case PEER_NODE_READY:
		coord_joining(c, from, &r->joining);
		return;
	case PEER_NOT_JOINING:
		coord_not_joining(c, from);
		return;
	case PEER_LOST:
		coord_lost(c, from, r->rank.rank, r->rank.was_in, r->rank.why);
		return;
	case PEER_RANK_NOT_BACK:
		coord_missing(c, from, r->rank.rank);
		return;
	case PEER_RESTORING:
		coord_restoring(c, from, r->step);
		return;
	case PEER_NOT_RESTORING:
		coord_not_restoring(c, from);
		return;
	case PEER_RESTORE_CANDIDATES:
		coord_found(c, from, &r->found);
		return;
	case PEER_FETCHED:
		coord_fetched(c, from, &r->save);
		return;
	case PEER_COPIED:
		coord_copied(c, from, r->save.id);
		return;
	case PEER_REACHED:
		coord_reached(c, from, r->save.id, r->save.level);
		return;
	case PEER_REPLICA_DIGESTS:
		coord_replica_digests(c, from, &r->replica_digests);
		return;
	case PEER_COMPARED:
		coord_compared(c, from, &r->compared);
		return;
	case PEER_UNCOPIED:
		coord_uncopied(c, from, r->save.id);
		membership_uncopied(host->daemon, host->job, r->save.id, r->save.text);
		return;
	case PEER_PREPARED:
		coord_prepared(c, from, r->prepared.id, &r->prepared.part);
		return;
	case PEER_SKIPPED:
		coord_passed(c, from, r->save.id, r->save.rc, r->save.text);
		return;
	case PEER_READY:
		coord_ready(c, from, r->save.id);
		return;
	case PEER_CLEARED:
		coord_cleared(c, from.node, r->save.id);
		return;
	case PEER_FAILED:
		coord_failed(c, from, r->save.id, r->save.rc, r->save.text);
		return;
	case PEER_LEFT_OUT:
		coord_left_out(c, from, r->save.id);
		return;
	case PEER_ASK:
		host->stop |= r->ask.command.kind == COMMAND_HALT;
		if (r->ask.command.kind != COMMAND_FLUSH)
			host_tell_others(host, from.node, &r->ask.command);
		else if (!host_asked_to_spill(host))
			host_tell_others(host, RANK_MAX, &r->ask.command); /* the one with rank 0 does it */
		return;
	case PEER_SPILLED:
		coord_spilled(c, from.node, &r->spilled);
		return;
	case PEER_FORGOT:
		coord_forgot(c, from.node, r->save.id);
		return;
	default:
		return;
	}
}

/* Where this node has ranks, too, its recoveries tell of the loss. With the last node that was there, what these were asked is forgotten: who
 * is still to end says so when it is back. Where that had finished, all is over. */
static void lose(struct coordinator_host *host, uint32_t node, const char *why)
{
	struct job *job = job_find(host->daemon, host->job);
	if (job && coord_needs(host->coord, node))
		recoveries_lost(&job->recovery_log, net_heard(host->daemon->net, node));
	bool attended = coord_view(host->coord).attending, finished = coord_has_finished(host->coord, node);
	coord_gone(host->coord, node, why);
	if (!attended || coord_view(host->coord).attending)
		return;
	host->stop = false;
	if (finished)
		host_over(host);
}

void hosts_node_down(struct daemon *daemon, uint32_t node, const char *why)
{
	list_for_safe(at, &daemon->hosts) {
		struct coordinator_host *host = list_entry(at, struct coordinator_host, link);
		if (host->spread)
			lose(host, node, why);
	}
	memberships_node_down(daemon, node);
}
