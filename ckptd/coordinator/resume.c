/* Another daemon coordinates the job from now on, and no rank of it was lost: its epoch goes on. Nobody is told anything before all ranks of the world are
 * there, by nodes that have entered that epoch and are in it still. Else a new one begins. What had been reported of saves is reported anew, and counts
 * from then on. */
#include "coordinator/coordinator_private.h"

#include "base/log.h"

void coord_resume(struct coord *c)
{
	c->resuming = true;
}

static void resumed(struct coord *c)
{
	struct peer_word word = {.epoch = c->epoch};
	c->resuming = c->fresh = false;
	c->entered = c->used = c->epoch;
	c->has_saved = true;
	log_info("job %s: %u ranks go on in epoch %u", c->job, c->world, c->epoch);
	for (uint32_t n = 0; n < c->nnodes && c->epoch == word.epoch; n++)
		if (c->nodes[n].ranks)
			coord_order_word(c, n, PEER_RESUME, word, "");
}

void coord_resume_give_up(struct coord *c, const char *why)
{
	if (c->resuming)
		coord_raise(c, "%s", why);
}

/* Its ranks are in the epoch, and nobody else's. */
static bool is_in(const struct coord *c, struct coord_from from, const struct peer_node_join *m)
{
	bool in = m->in == c->epoch && from.epoch == c->epoch && m->known <= c->epoch && !m->finished;
	for (uint32_t i = 0; in && i < m->nranks; i++)
		in = m->ranks[i] < c->world &&
		     (c->owners[m->ranks[i]] == COORD_NOBODY || c->owners[m->ranks[i]] == from.node);
	return in;
}

bool coord_resume_joins(struct coord *c, struct coord_from from, const struct peer_node_join *m)
{
	if (!is_in(c, from, m)) {
		coord_resume_give_up(c, "a node of it comes from elsewhere since the coordinator was lost");
		return false;
	}
	if (c->nodes[from.node].ranks != m->nranks)
		coord_set_ranks(c, from.node, m->nranks);
	for (uint32_t i = 0; i < m->nranks; i++) {
		c->nodes[from.node].owned += c->owners[m->ranks[i]] != from.node;
		c->owners[m->ranks[i]] = from.node;
	}
	c->nodes[from.node].knows = c->nodes[from.node].in = true;
	if (c->attending == c->world)
		resumed(c);
	return true;
}
