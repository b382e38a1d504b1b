/* Another daemon coordinates the job from now on, and no rank of it was lost: its epoch goes on. Nobody is told anything before all ranks of the world are
 * there, by nodes that have entered that epoch and are in it still. Else a new one begins. What had been reported of saves is reported anew, and counts
 * from then on.
 *
 * Where the epoch ends since a rank of it was lost, what all ranks had copied in it goes on into the next one, as it does
 * where the coordinator lives on. So each node says as it joins what it has copied; and as long as something may come of
 * that, the epoch ends when all ranks are there, or are late, and not before. Nobody has been told of a later one until
 * then: an epoch is on record before anybody is told of it, and this one is the last on record. What is said after that
 * does not count: where one rank has left the collectives, what another one copies is garbage. */
#include "coordinator/save/save.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

void coord_resume(struct coord *c)
{
	c->resuming = true;
}

static void resumed(struct coord *c)
{
	struct peer_word word = {.epoch = c->epoch};
	c->resuming = c->fresh = false;
	c->entered = c->used = c->epoch;
	log_info("job %s: %u ranks go on in epoch %u", c->job, c->world, c->epoch);
	for (uint32_t n = 0; n < c->nnodes && c->epoch == word.epoch; n++)
		if (c->nodes[n].ranks)
			coord_order_word(c, n, PEER_RESUME, word, "");
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static const struct peer_copied *find_copied(const struct coord_node *n, uint64_t step)
{
	for (uint32_t i = 0; i < n->ncopied; i++)
		if (n->copied[i].step == step)
			return &n->copied[i];
	return NULL;
}

/* All who are there have copied it: how many of them there are, and how many know it as captured. */
static bool all_have(const struct coord *c, uint64_t step, uint32_t *nodes, uint32_t *captured)
{
	*nodes = *captured = 0;
	coord_each(c, n)
	{
		const struct peer_copied *copied = find_copied(&c->nodes[n], step);
		if (!copied)
			return false;
		++*nodes;
		*captured += copied->captured;
	}
	return true;
}

static const struct coord_node *first_node(const struct coord *c)
{
	coord_each(c, n) return &c->nodes[n];
	return NULL;
}

void coord_resume_count(struct coord *c)
{
	const struct coord_node *first = first_node(c);
	uint32_t nodes, captured;
	if (!c->resuming || !first || c->attending != c->world)
		return;
	for (uint32_t i = 0; i < first->ncopied; i++)
		if (all_have(c, first->copied[i].step, &nodes, &captured))
			coord_save_recall(c, (struct step_id){.step = first->copied[i].step, .epoch = c->epoch},
					  captured);
}

/* Something that all have copied may come of those who have yet to come. */
static bool is_worth_waiting(const struct coord *c)
{
	const struct coord_node *first = first_node(c);
	uint32_t nodes, captured;
	for (uint32_t i = 0; first && c->attending < c->world && i < first->ncopied; i++)
		if (all_have(c, first->copied[i].step, &nodes, &captured) && captured < nodes)
			return true;
	return false;
}

static void end_if_all_came(struct coord *c)
{
	char why[WIRE_TEXT_MAX];
	snprintf(why, sizeof(why), "%s", c->ends);
	if (!is_worth_waiting(c))
		coord_raise(c, "%s", why);
}

void coord_resume_end(struct coord *c, const char *fmt, ...)
{
	va_list ap;
	if (!c->resuming)
		return;
	va_start(ap, fmt);
	if (!*c->ends)
		vsnprintf(c->ends, sizeof(c->ends), fmt, ap);
	va_end(ap);
	end_if_all_came(c);
}

void coord_resume_give_up(struct coord *c, const char *why)
{
	char ends[WIRE_TEXT_MAX];
	snprintf(ends, sizeof(ends), "%s", *c->ends ? c->ends : why);
	if (c->resuming)
		coord_raise(c, "%s", ends);
}

/* ---- who comes --------------------------------------------------------------------------------------------------- */

/* It has the ranks that it had in the epoch, each of them once, which are nobody else's. */
static bool was_in(const struct coord *c, struct coord_from from, const struct peer_node_join *m)
{
	bool in = peer_names_ranks(m) && from.epoch == c->epoch && m->known <= c->epoch && !m->finished;
	for (uint32_t i = 0; in && i < m->nranks; i++)
		in = m->ranks[i] < c->world && !coord_named_before(m->ranks, i) &&
		     (c->owners[m->ranks[i]] == COORD_NOBODY || c->owners[m->ranks[i]] == from.node);
	return in;
}

static void take_in(struct coord *c, uint32_t node, const struct peer_node_join *m)
{
	struct coord_node *n = &c->nodes[node];
	if (n->ranks != m->nranks)
		coord_set_ranks(c, node, m->nranks);
	for (uint32_t i = 0; i < m->nranks; i++) {
		n->owned += c->owners[m->ranks[i]] != node;
		c->owners[m->ranks[i]] = node;
	}
	n->knows = n->in = c->has_saved = true;
	n->ncopied = m->ncopied;
	memcpy(n->copied, m->copied, sizeof(n->copied));
}

bool coord_resume_joins(struct coord *c, struct coord_from from, const struct peer_node_join *m)
{
	static const char elsewhere[] = "a node of it comes from elsewhere since the coordinator was lost";
	bool in = m->in == c->epoch;
	if (!was_in(c, from, m) || (!in && !m->ncopied)) {
		coord_resume_give_up(c, elsewhere);
		return false;
	}
	take_in(c, from.node, m);
	if (!in)
		coord_resume_end(c, elsewhere);
	else if (*c->ends)
		end_if_all_came(c);
	else if (c->attending == c->world)
		resumed(c);
	return true;
}
