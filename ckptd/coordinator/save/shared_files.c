/* Who writes what several nodes hold alike (shares.h). Where they do not hold the same of a replica group, those that
 * were the first to hold just this are asked for its pieces. */
#include "coordinator/coordinator_private.h"

static bool all_known(const struct coord *c)
{
	return c->attending == c->world && c->informed == c->world;
}

static bool assigned(const struct coord *c)
{
	coord_each(c, n) if (!c->nodes[n].parts_known) return false;
	return true;
}

static void collect(struct coord *c, struct division *d)
{
	d->n = 0;
	coord_each(c, n) d->of[d->n++] = &c->nodes[n].holdings;
}

/* The next node that is to list pieces, and was not told so; COORD_NOBODY: none. */
static uint32_t next_to_ask(struct coord *c, const struct division *d, bool *waits)
{
	uint32_t i = 0;
	*waits = false;
	coord_each(c, n)
	{
		struct coord_node *node = &c->nodes[n];
		uint32_t lacks = division_lacks(d, i++);
		*waits |= lacks != 0;
		if (!lacks || node->asked == lacks)
			continue;
		node->asked = lacks;
		return n;
	}
	return COORD_NOBODY;
}

/* -EAGAIN: a node is to list pieces first. *ask: which is to be told so; COORD_NOBODY: none. */
static int divide(struct coord *c, struct division *d, uint32_t *ask, struct err *err)
{
	bool waits = false;
	*ask = COORD_NOBODY;
	int rc = division_look(d, err);
	if (rc)
		return rc;
	*ask = next_to_ask(c, d, &waits);
	return waits ? -EAGAIN : division_settle(d, err);
}

/* True: it is to be tried again. */
static bool try_assign(struct coord *c)
{
	struct division d;
	struct err err = {{0}};
	uint32_t ask;
	c->divided = true;
	if (division_make(&d, c->nnodes, &err))
		return false; /* nothing is written before some node says again what it holds */
	collect(c, &d);
	int rc = divide(c, &d, &ask, &err);
	division_free(&d);
	if (!rc)
		coord_each(c, n) c->nodes[n].parts_known = true;
	c->undivided_rc = rc == -EAGAIN ? 0 : rc;
	c->undivided = err;
	if (ask == COORD_NOBODY)
		return false;
	coord_order(c, ask, &(struct peer_order){.type = PEER_LIST_PIECES, .number = c->nodes[ask].asked});
	return true;
}

/* Who is asked may answer, and with that all may be known, before the next one is asked. */
static void assign(struct coord *c)
{
	while (all_known(c) && !assigned(c) && try_assign(c))
		;
}

/* Also of those who said so while somebody joined whose loss was not known yet. */
bool coord_parts_known(struct coord *c)
{
	assign(c);
	return assigned(c);
}

void coord_parts_forget(struct coord *c)
{
	c->undivided_rc = 0;
	if (!c->divided)
		return;
	c->divided = false;
	coord_each(c, n)
	{
		node_holdings_forget_parts(&c->nodes[n].holdings);
		c->nodes[n].parts_known = c->nodes[n].ranks == c->world; /* it has nothing to share with */
	}
}

void coord_set_informed(struct coord *c, uint32_t node, bool informed)
{
	struct coord_node *n = &c->nodes[node];
	if (n->shares_known != informed)
		c->informed += informed ? n->ranks : -n->ranks;
	n->shares_known = informed;
}

bool coord_alike(const struct coord *c)
{
	coord_each(c, n) if (!c->nodes[n].shares_known || c->nodes[n].holdings.shares.n) return true;
	return !c->attending;
}

void coord_shares(struct coord *c, uint32_t node, const struct shares *shares)
{
	struct coord_node *n = &c->nodes[node];
	if (!n->ranks)
		return;
	int changed = node_holdings_hear(&n->holdings, shares);
	n->asked = 0; /* it may not have heard that */
	if (changed || !n->shares_known)
		coord_parts_forget(c);
	coord_set_informed(c, node, changed >= 0);
	if (coord_parts_known(c) || c->undivided_rc)
		coord_saves_write(c);
}
