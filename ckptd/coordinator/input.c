/* What nodes report, by message. */
#include "coordinator/coordinator_private.h"

static void node_join(struct coord *c, struct coord_from from, const struct peer_node_join *m)
{
	coord_recall(c, m->replicated);
	coord_pin(c, from.node);
	if (c->resuming && coord_resume_joins(c, from, m))
		return;
	if (!m->finished || !coord_finished(c, from, m->nranks))
		coord_node_join(c, from, m->nranks, m->known);
}

void coord_input(struct coord *c, struct coord_from from, const struct peer_report *r)
{
	if (from.node >= c->nnodes)
		return; /* it has no part in this job */
	switch (r->type) {
	case PEER_NODE_JOIN:
		node_join(c, from, &r->node_join);
		return;
	case PEER_SHARED_PIECES:
		coord_shares(c, from.node, &r->shares);
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
		coord_failed(c, from, r->save.id, r->save.flag, r->save.rc, r->save.text);
		return;
	case PEER_LEFT_OUT:
		coord_left_out(c, from, r->save.id);
		return;
	case PEER_SPILLED:
		coord_spilled(c, from.node, &r->spilled);
		return;
	case PEER_SCHEDULE_WANTED:
		coord_schedule_wanted(c, from, &r->schedule_wanted);
		return;
	case PEER_SILENT:
		coord_silent(c, from, &r->silent);
		return;
	case PEER_PACE:
		coord_pace(c, from, &r->pace);
		return;
	case PEER_TENSORS:
		coord_tensors(c, from, &r->tensors);
		return;
	case PEER_FORGOT:
		coord_forgot(c, from.node, r->save.id);
		return;
	default:
		return;
	}
}
