/* Who wants to enter an epoch, with which ranks, and when all do. */
#include "coordinator/coordinator_private.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

/* Somebody new among those who are at work, or one of them wants to begin again: a new epoch for all. */
void coord_want(struct coord *c, struct coord_from from, uint32_t rank)
{
	if (!coord_current(c, from))
		return;
	if (c->resuming)
		coord_resume_end(c, "rank %u joins", rank);
	else if (c->entered == c->epoch)
		coord_raise(c, "rank %u joins", rank);
}

static void enter(struct coord *c)
{
	struct peer_order joined = {
		.type = PEER_JOINED,
		.joined = {.epoch = c->epoch, .world = c->world, .address_len = c->lens, .addresses = c->addresses}};
	c->fresh = c->resumed = false;
	c->entered = c->epoch;
	c->lost = COORD_NOBODY;
	coord_schedule_enter(c);
	coord_each(c, n)
	{
		coord_set_joining(c, n, false);
		c->nodes[n].knows = c->nodes[n].in = true;
	}
	c->orders->persist(c->orders->arg, c->epoch, c->reason);
	log_info("job %s: %u ranks joined epoch %u", c->job, c->world, c->epoch);
	coord_each(c, n) coord_order(c, n, &joined);
}

static bool goes_on(const struct coord *c)
{
	coord_each(c, n) if (c->nodes[n].goes_on) return true;
	return false;
}

static bool may_enter(const struct coord *c)
{
	return !c->orders->may_enter || c->orders->may_enter(c->orders->arg, goes_on(c));
}

void coord_try_enter(struct coord *c)
{
	if (!c->held && !c->resuming && c->attending == c->world && c->joining == c->world && c->entered != c->epoch &&
	    coord_agree(c) && may_enter(c))
		enter(c);
}

bool coord_named_before(const uint32_t *ranks, uint32_t i)
{
	for (uint32_t k = 0; k < i; k++)
		if (ranks[k] == ranks[i])
			return true;
	return false;
}

/* Two nodes that both believe to have a rank, or one that has none of the world, or names one twice: then another one would be nobody's. */
static bool has_ranks(struct coord *c, uint32_t node, const struct peer_node_ready *m)
{
	char text[WIRE_TEXT_MAX] = "";
	if (m->n != c->nodes[node].ranks)
		snprintf(text, sizeof(text), "%u ranks want to enter where %u take part", m->n, c->nodes[node].ranks);
	for (uint32_t i = 0; !*text && i < m->n; i++) {
		uint32_t rank = m->ranks[i];
		if (rank >= c->world)
			snprintf(text, sizeof(text), "rank %u of a world of %u", rank, c->world);
		else if (coord_named_before(m->ranks, i))
			snprintf(text, sizeof(text), "rank %u is named twice", rank);
		else if (c->owners[rank] != COORD_NOBODY && c->owners[rank] != node &&
			 c->nodes[c->owners[rank]].joining)
			snprintf(text, sizeof(text), "rank %u is on another node, too", rank);
	}
	if (*text)
		coord_order_word(c, node, PEER_REJECT, (struct peer_word){.rc = -EINVAL}, text);
	return !*text;
}

/* It may have had other ranks before it was lost. */
static void forget_others(struct coord *c, uint32_t node, const struct peer_node_ready *m)
{
	uint32_t *owned = &c->nodes[node].owned, still = 0;
	for (uint32_t i = 0; i < m->n; i++)
		still += c->owners[m->ranks[i]] == node;
	for (uint32_t r = 0; still < *owned && r < c->world; r++)
		if (c->owners[r] == node)
			c->owners[r] = COORD_NOBODY;
	*owned = m->n;
}

void coord_joining(struct coord *c, struct coord_from from, const struct peer_node_ready *m)
{
	if (!coord_current(c, from) || c->nodes[from.node].moved || !has_ranks(c, from.node, m))
		return;
	if (c->resuming) {
		coord_resume_end(c, "a node joins");
		return; /* it says so again in the next one */
	}
	if (c->entered == c->epoch) { /* in: it said so twice, and will hear that it has entered */
		if (!c->nodes[from.node].in)
			coord_raise(c, "a node joins");
		return;
	}
	forget_others(c, from.node, m);
	for (uint32_t i = 0; i < m->n; i++) {
		uint32_t rank = m->ranks[i];
		c->owners[rank] = from.node;
		c->lens[rank] = m->lens[i];
		tables_ready(&c->tables, rank, m->tensors[i]);
		memcpy(c->addresses + (size_t)rank * WIRE_ADDRESS_MAX, m->addresses + (size_t)i * WIRE_ADDRESS_MAX,
		       m->lens[i]);
	}
	c->nodes[from.node].blobs = m->blobs;
	c->nodes[from.node].goes_on = m->goes_on;
	coord_set_joining(c, from.node, true);
	coord_set_finished(c, from.node, false);
	coord_finishes(c);
	coord_try_enter(c);
}

void coord_hold(struct coord *c, const char *why)
{
	c->held = true;
	if (c->entered == c->epoch || c->resuming)
		coord_raise(c, "%s", why);
	coord_saves_hold(c);
}

void coord_admit(struct coord *c)
{
	if (!c->persisting)
		coord_try_enter(c);
}

void coord_release(struct coord *c)
{
	c->held = false;
	coord_admit(c);
}

void coord_not_joining(struct coord *c, struct coord_from from)
{
	if (coord_current(c, from))
		coord_set_joining(c, from.node, false);
}
