/* Nodes whose ranks have all finished, while others are still at work. */
#include "coordinator/coordinator_private.h"

/* It was away since it said so for the first time, and has missed nothing that concerns it. */
static void come_back(struct coord *c, uint32_t node, uint32_t nranks)
{
	coord_set_ranks(c, node, nranks);
	c->nodes[node].knows = c->nodes[node].in = true;
	coord_saves_node_join(c, node);
}

static enum peer_finish_state stand(const struct coord *c)
{
	if (c->joining)
		return PEER_NEEDED;
	coord_each(c, n) if (!c->nodes[n].finished) return PEER_STAYS;
	return PEER_DISMISSED;
}

void coord_set_finished(struct coord *c, uint32_t node, bool finished)
{
	c->finished += finished - c->nodes[node].finished;
	c->nodes[node].finished = finished;
}

static void tell(struct coord *c, uint32_t node, enum peer_finish_state is)
{
	coord_set_finished(c, node, is != PEER_NEEDED);
	coord_order(c, node, &(struct peer_order){.type = PEER_FINISH_STATE, .number = is});
}

void coord_finishes(struct coord *c)
{
	if (!c->finished)
		return;
	enum peer_finish_state is = stand(c);
	coord_each(c, n) if (c->nodes[n].finished && is != PEER_STAYS) tell(c, n, is);
}

bool coord_has_finished(const struct coord *c, uint32_t node)
{
	return c->nodes[node].finished;
}

/* An epoch that nobody was told of in this incarnation of the coordinator may have been another one of that number: then all have entered it, or the
 * node joins anew. */
bool coord_finished(struct coord *c, struct coord_from from, uint32_t nranks)
{
	struct coord_node *n = &c->nodes[from.node];
	bool has_ranks = n->ranks == nranks;
	if (from.epoch != c->epoch || c->persisting || (!has_ranks && c->entered != c->epoch))
		return false;
	if (!has_ranks)
		come_back(c, from.node, nranks);
	coord_set_finished(c, from.node, true);
	if (stand(c) == PEER_STAYS)
		tell(c, from.node, PEER_STAYS);
	coord_finishes(c);
	return true;
}
