/* What is reported, as far as it concerns more than the coordinator; and that a node is lost. */
#include "base/log.h"
#include "cluster/room.h"
#include "control/control.h"
#include "control/host/coordinator_host_private.h"
#include "control/lemon/set_aside.h"
#include "control/membership/membership.h"
#include "job/room.h"
#include "replication/room.h"

#include <string.h>

/* Of a job that is on its way out, nobody needs the host. One whose ranks have not finished may go on with others: who comes when nobody is left
 * begins another incarnation of it, and is not to end. */
static void leave(struct coordinator_host *host, uint32_t node, enum peer_leave why)
{
	bool last = coord_leave(host->coord, node) && !coord_view(host->coord).attending;
	bool finished = why == PEER_RANKS_FINISHED;
	if (why == PEER_RANKS_COME_AGAIN) {
		membership_deserted(host->control, host->job, node, false);
		return;
	}
	bool goes_on = finished ? membership_left(host->control, host->job, node)
				: membership_deserted(host->control, host->job, node, last);
	if (last && !goes_on)
		host_over(host, finished);
	else if (last && !finished)
		halt_doubt(host);
}

static void attends(struct coordinator_host *host, uint32_t node, const struct peer_node_join *m)
{
	if (host->ended) /* that was another incarnation of the job */
		halt_forget(host);
	host->ended = false;
	halt_attends(host, node, m);
}

static void asked(struct coordinator_host *host, struct coord_from from, const struct wire_command *command)
{
	struct err err = {{0}};
	if (wire_command_is_halt(command)) {
		int rc = host_halt(host->control, host->job, command, &err);
		if (rc && rc != -EINPROGRESS)
			log_warn("%s", err.text);
		return;
	}
	if (command->kind == COMMAND_ROLLBACK)
		coord_rollback(host->coord, from, &command->back);
	else if (command->kind != COMMAND_FLUSH)
		host_tell_others(host, from.node, command);
	else if (!host_asked_to_spill(host))
		host_tell_others(host, RANK_MAX, command); /* the one with rank 0 does it */
}

/* Of a rank that was lost its node is suspected; what is lost before all have entered the next epoch follows from that. When they have, the job has gone
 * on. */
static void note_failure(const struct coordinator_host *host, const struct peer_report *r, uint32_t node,
			 const struct coord_view *was)
{
	struct coord_view is = coord_view(host->coord);
	bool lost = r->type == PEER_LOST || r->type == PEER_RANK_NOT_BACK;
	if (lost && was->entered == was->epoch && is.epoch > was->epoch)
		set_aside_suspect(host->control, node, host->job, coord_reason(host->coord));
	if (was->entered != was->epoch && is.entered == is.epoch)
		set_aside_gone_on(host->control, host->job);
}

/* What a node has written in the directory of another coordinator is not in this one's: it has that ready, no more. */
static bool heard_as_ready(struct coordinator_host *host, struct coord_from from, const struct peer_report *r)
{
	if (r->type != PEER_PREPARED || r->prepared.maker == host->directories.maker)
		return false;
	host_hear(host, from, &(struct peer_report){.type = PEER_READY, .save.id = r->prepared.id});
	return true;
}

void host_hear(struct coordinator_host *host, struct coord_from from, const struct peer_report *r)
{
	if (heard_as_ready(host, from, r))
		return;
	switch (r->type) {
	case PEER_LEAVE:
		leave(host, from.node, r->leave);
		return;
	case PEER_REQUEST:
		asked(host, from, &r->request.command);
		return;
	case PEER_NODE_JOIN:
		attends(host, from.node, &r->node_join);
		break;
	default:
		break;
	}
	struct coord_view was = coord_view(host->coord);
	coord_input(host->coord, from, r);
	if (host->spread)
		note_failure(host, r, from.node, &was);
	if (r->type == PEER_UNCOPIED)
		membership_uncopied(host->control, host->job, r->save.id, r->save.text);
}

/* Where this node has ranks, too, its recoveries tell of the loss. With the last node that was there, what these were asked is forgotten: who
 * is still to end says so when it is back. Where that had finished, all is over. */
static void lose(struct coordinator_host *host, uint32_t node, uint64_t heard_ns, const char *why)
{
	struct job *job = job_find(host->control->jobs, host->job);
	if (job && coord_needs(host->coord, node))
		recoveries_lost(&job->recovery_log, heard_ns);
	bool attended = coord_view(host->coord).attending, finished = coord_has_finished(host->coord, node);
	coord_gone(host->coord, node, why);
	if (!attended || coord_view(host->coord).attending)
		return;
	halt_doubt(host);
	if (finished)
		host_over(host, true);
}

static void suspect(struct control *control, uint32_t node, int rc, const char *job, const char *why)
{
	if (*job && rc != -ESHUTDOWN)
		set_aside_suspect(control, node, job, why);
}

void host_lose(struct control *control, const char *job, uint32_t node, int rc, uint64_t heard_ns, const char *why)
{
	struct coordinator_host *host = host_find(control, job);
	bool needed = host && coord_needs(host->coord, node);
	if (host)
		lose(host, node, heard_ns, why);
	suspect(control, node, rc, needed ? job : "", why);
	membership_node_down(control, job, node);
}

/* Where others are asked of it first, that is for later. */
void hosts_node_down(struct control *control, uint32_t node, int rc, const char *why)
{
	const struct net *net = control->peers->net;
	uint64_t heard_ns = net ? net_heard(net, node) : 0;
	char job[NAME_JOB_MAX] = ""; /* that needs the node */
	hand_overs_node_down(control, node);
	list_for_safe(at, &control->hosts) {
		struct coordinator_host *host = list_entry(at, struct coordinator_host, link);
		if (!host->spread || host->deposed || hand_over_asks(host, node, rc, why))
			continue;
		if (coord_needs(host->coord, node))
			memcpy(job, host->job, sizeof(job));
		lose(host, node, heard_ns, why);
	}
	suspect(control, node, rc, job, why);
	memberships_node_down(control, node);
}
