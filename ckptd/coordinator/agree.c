/* Ranks that are to enter an epoch together know the blobs of the job and the tensors alike; else they are refused, and both sides are named. */
#include "coordinator/coordinator_private.h"

#include <errno.h>

/* That nobody enters is told to all: any of them may be the one that is wrong. */
static void reject_all(struct coord *c, int rc, const char *text)
{
	coord_each(c, n)
	{
		coord_set_joining(c, n, false);
		coord_order_word(c, n, PEER_REJECT, (struct peer_word){.rc = rc}, text);
	}
}

static bool share_blobs(struct coord *c)
{
	struct err err = {{0}};
	uint32_t first = COORD_NOBODY;
	int rc = 0;
	coord_each(c, n)
	{
		if (first == COORD_NOBODY)
			first = n;
		else if (!rc && !job_blobs_alike(&c->nodes[first].blobs, &c->nodes[n].blobs))
			rc = job_blobs_compare(&c->nodes[first].blobs, coord_rank_of(c, first), &c->nodes[n].blobs,
					       coord_rank_of(c, n), &err);
	}
	if (rc)
		reject_all(c, rc, err.text);
	return !rc;
}

/* False: not yet, or not at all. Ranks of this node answer before the order returns. */
static bool share_tables(struct coord *c)
{
	struct err err = {{0}};
	struct peer_order order = {.type = PEER_LIST_TENSORS};
	int rc = -EINPROGRESS;
	if (c->nodes[c->owners[0]].ranks == c->world)
		return true; /* that was seen when their arenas were laid out */
	if (c->comparing)
		return false;
	c->comparing = true;
	while (rc == -EINPROGRESS) {
		rc = tables_compare(&c->tables, &order.tensors, &err);
		if (rc != -EINPROGRESS || order.tensors.rank >= c->world)
			break;
		coord_order(c, c->owners[order.tensors.rank], &order);
	}
	c->comparing = false;
	if (rc && rc != -EINPROGRESS)
		reject_all(c, rc, err.text);
	return !rc;
}

bool coord_agree(struct coord *c)
{
	return share_blobs(c) && share_tables(c);
}

void coord_tensors(struct coord *c, struct coord_from from, const struct peer_tensors *m)
{
	bool asked = coord_current(c, from) && m->ask.rank < c->world && c->owners[m->ask.rank] == from.node;
	if (asked && tables_hear(&c->tables, m))
		coord_try_enter(c);
}
