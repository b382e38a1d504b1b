/* Who writes what several nodes hold alike (shares.h). */
#include "coordinator/coordinator_private.h"

#include "base/cleanup.h"

#include <stdlib.h>

static bool all_known(const struct coord *c)
{
	coord_each(c, n) if (!c->nodes[n].shares_known) return false;
	return c->attending == c->world;
}

/* Without memory nothing is written before somebody says again what he holds. */
static void assign(struct coord *c)
{
	AUTO_FREE const struct shares **shares = calloc(c->nnodes, sizeof(*shares));
	AUTO_FREE struct share_parts **parts = calloc(c->nnodes, sizeof(*parts));
	uint32_t n = 0;
	if (!shares || !parts)
		return;
	coord_each(c, node)
	{
		shares[n] = &c->nodes[node].shares;
		parts[n++] = &c->nodes[node].parts;
	}
	int rc = shares_assign(shares, parts, n, SHARE_PART_MIN);
	coord_each(c, node) c->nodes[node].parts_known = !rc;
}

static bool assigned(const struct coord *c)
{
	coord_each(c, n) if (!c->nodes[n].parts_known) return false;
	return true;
}

/* Also of those who said so while somebody joined whose loss was not known yet. */
bool coord_parts_known(struct coord *c)
{
	if (!assigned(c) && all_known(c))
		assign(c);
	return assigned(c);
}

void coord_parts_forget(struct coord *c)
{
	coord_each(c, n)
	{
		c->nodes[n].parts = (struct share_parts){0};
		c->nodes[n].parts_known = c->nodes[n].ranks == c->world; /* it has nothing to share with */
	}
}

bool coord_alike(const struct coord *c)
{
	coord_each(c, n) if (!c->nodes[n].shares_known || c->nodes[n].shares.n) return true;
	return !c->attending;
}

void coord_shares(struct coord *c, uint32_t node, const struct shares *shares)
{
	if (!c->nodes[node].ranks)
		return;
	c->nodes[node].shares = *shares;
	c->nodes[node].shares_known = true;
	if (!all_known(c))
		return;
	assign(c); /* it may be something else than before */
	coord_saves_write(c);
}
