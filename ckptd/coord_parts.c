/* Who writes what several nodes hold alike: each of them one part of it. */
#include "coord_private.h"

#include <stdlib.h>

static bool all_known(const struct coord *c)
{
	coord_each(c, n) if (!c->nodes[n].shares) return false;
	return c->attending == c->world;
}

static int by_shares(const void *a, const void *b, void *nodes)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint64_t s = ((const struct coord_node *)nodes)[x].shares, t = ((const struct coord_node *)nodes)[y].shares;
	if (s != t)
		return s < t ? -1 : 1;
	return x < y ? -1 : x > y;
}

static void assign(struct coord *c)
{
	uint32_t n = 0;
	coord_each(c, node) c->sorted[n++] = node;
	qsort_r(c->sorted, n, sizeof(*c->sorted), by_shares, c->nodes);
	for (uint32_t i = 0, end; i < n; i = end) {
		uint64_t shares = c->nodes[c->sorted[i]].shares;
		for (end = i + 1; end < n && c->nodes[c->sorted[end]].shares == shares;)
			end++;
		for (uint32_t k = i; k < end; k++) {
			c->nodes[c->sorted[k]].part = k - i;
			c->nodes[c->sorted[k]].parts = end - i;
		}
	}
}

static bool assigned(const struct coord *c)
{
	coord_each(c, n) if (!c->nodes[n].parts) return false;
	return true;
}

/* Also of those who said so while somebody attended whose loss was not known yet. */
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
		c->nodes[n].part = 0;
		c->nodes[n].parts = c->nodes[n].ranks == c->world; /* it has nothing to share with */
	}
}

void coord_shares(struct coord *c, uint32_t node, uint64_t shares)
{
	if (!c->nodes[node].ranks)
		return;
	c->nodes[node].shares = shares;
	if (!all_known(c))
		return;
	assign(c); /* it may be something else than before */
	coord_saves_write(c);
}
