/* What is reported, by type; and that a node is lost. */
#include "cluster/net.h"
#include "control/coordinator_host_private.h"
#include "control/membership.h"
#include "job/job.h"

#include <string.h>

/* Of a job that is on its way out, nobody needs the chair. One whose ranks have not finished may go on with others: who comes when nobody is left
 * begins another life of it, and is not to end. */
static void leave(struct chair *chair, uint32_t node, bool finished)
{
	bool last = coord_leave(chair->coord, node) && !coord_view(chair->coord).attending;
	bool goes_on = finished ? muster_left(chair->daemon, chair->job, node)
				: muster_deserted(chair->daemon, chair->job, node, last);
	if (last && !goes_on)
		chair_over(chair);
	else if (last && !finished)
		chair->stop = false;
}

/* It may not have been there when the others were asked to end. */
static void attends(struct chair *chair, uint32_t node)
{
	struct peer_order stop = {.type = PEER_STOP, .word.epoch = coord_view(chair->coord).epoch};
	chair->stop &= !chair->ended; /* else that was another life of the job */
	chair->ended = false;
	memcpy(stop.job, chair->job, sizeof(stop.job));
	if (chair->stop)
		chair_order(chair->daemon, chair->spread, node, &stop);
}

void chair_hear(struct chair *chair, struct coord_from from, const struct peer_report *r)
{
	struct coord *c = chair->coord;
	switch (r->type) {
	case PEER_ATTEND:
		attends(chair, from.node);
		coord_recall(c, r->attend.replicated);
		if (!r->attend.finished || !coord_finished(c, from, r->attend.nranks))
			coord_attend(c, from, r->attend.nranks, r->attend.known);
		return;
	case PEER_SHARES:
		coord_shares(c, from.node, &r->shares);
		return;
	case PEER_LEAVE:
		leave(chair, from.node, r->finished);
		return;
	case PEER_WANT:
		coord_want(c, from, r->rank.rank);
		return;
	case PEER_JOINING:
		coord_joining(c, from, &r->joining);
		return;
	case PEER_NOT_JOINING:
		coord_not_joining(c, from);
		return;
	case PEER_LOST:
		coord_lost(c, from, r->rank.rank, r->rank.was_in, r->rank.why);
		return;
	case PEER_MISSING:
		coord_missing(c, from, r->rank.rank);
		return;
	case PEER_RESTORING:
		coord_restoring(c, from, r->step);
		return;
	case PEER_NOT_RESTORING:
		coord_not_restoring(c, from);
		return;
	case PEER_FOUND:
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
	case PEER_VOTES:
		coord_votes(c, from, &r->votes);
		return;
	case PEER_COMPARED:
		coord_compared(c, from, &r->compared);
		return;
	case PEER_UNCOPIED:
		coord_uncopied(c, from, r->save.id);
		muster_uncopied(chair->daemon, chair->job, r->save.id, r->save.text);
		return;
	case PEER_PREPARED:
		coord_prepared(c, from, r->prepared.id, &r->prepared.part);
		return;
	case PEER_PASSED:
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
		chair->stop |= r->ask.command.kind == COMMAND_HALT;
		if (r->ask.command.kind != COMMAND_FLUSH)
			chair_tell_others(chair, from.node, &r->ask.command);
		else if (!chair_asked_to_rescue(chair))
			chair_tell_others(chair, RANK_MAX, &r->ask.command); /* the one with rank 0 does it */
		return;
	case PEER_RESCUED:
		coord_rescued(c, from.node, &r->rescued);
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
static void lose(struct chair *chair, uint32_t node, const char *why)
{
	struct job *job = job_find(chair->daemon, chair->job);
	if (job && coord_needs(chair->coord, node))
		recoveries_lost(&job->recoveries, net_heard(chair->daemon->net, node));
	bool attended = coord_view(chair->coord).attending, finished = coord_has_finished(chair->coord, node);
	coord_gone(chair->coord, node, why);
	if (!attended || coord_view(chair->coord).attending)
		return;
	chair->stop = false;
	if (finished)
		chair_over(chair);
}

void chairs_node_down(struct daemon *daemon, uint32_t node, const char *why)
{
	list_for_safe(at, &daemon->chairs) {
		struct chair *chair = list_entry(at, struct chair, link);
		if (chair->spread)
			lose(chair, node, why);
	}
	musters_node_down(daemon, node);
}
