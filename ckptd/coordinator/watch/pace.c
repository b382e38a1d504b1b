/* Pace: how far the ranks of each node have come, and who is late again and again (coordinator/watch/straggling.h). It is known of one epoch, and while
 * all nodes have the ranks that they had when it began: else all begins anew, and the nodes hear of it with the next round. */
#include "coordinator/coordinator_private.h"

#include "base/clock.h"

#include <math.h>
#include <stdlib.h>

/* ---- what is reported ------------------------------------------------------------------------------------------ */

/* False: not all nodes are there, or there is no memory for it. */
static bool begin(struct coord *c)
{
	if (c->straggling.epoch == c->epoch)
		return true;
	uint32_t *owners = calloc(c->world, sizeof(*owners));
	bool known = owners;
	for (uint32_t r = 0; known && r < c->world; r++) {
		owners[r] = c->nnodes == 1 ? 0 : c->owners[r];
		known = owners[r] < c->nnodes;
	}
	if (known)
		known = !straggling_begin(&c->straggling, c->epoch, c->world, owners, c->nnodes);
	free(owners);
	return known;
}

static bool are_its_ranks(const struct coord *c, uint32_t node, const struct peer_pace *m)
{
	bool its = m->n && m->n == c->straggling.nodes[node].ranks;
	for (uint32_t i = 0; its && i < m->n; i++)
		its = m->of[i].rank < c->world && c->straggling.ranks[m->of[i].rank].node == node;
	return its;
}

/* ---- what is told ---------------------------------------------------------------------------------------------- */

static uint32_t share(double of)
{
	return (uint32_t)(fmin(fmax(of, 0), 1) * PEER_SHARE);
}

static uint32_t thousandths(double ratio)
{
	return (uint32_t)fmin(1000 * ratio, UINT32_MAX);
}

static void add(struct peer_stragglers *m, const struct straggling_one *one, struct peer_straggler is)
{
	uint64_t now = clock_now();
	if (!one->late || m->n == PEER_STRAGGLERS_MAX)
		return;
	is.ratio = thousandths(one->ratio);
	is.lasted_ns = now - min_u64(one->since_ns, now);
	is.lost_ns = min_u64((uint64_t)one->lost_ns, is.lasted_ns);
	m->of[m->n++] = is;
}

static void add_own_parts(struct peer_stragglers *m, const struct straggling *s, uint32_t node)
{
	m->nown = 0;
	for (uint32_t r = s->nodes[node].first; r < s->world && m->nown < WIRE_LOCAL_MAX; r = s->ranks[r].next) {
		const struct straggling_one *is = &s->ranks[r].is;
		if (is->compared)
			m->own[m->nown++] = (struct peer_own_part){r, is->late, share(is->own), thousandths(is->ratio),
								   share(is->cost)};
	}
}

static void tell(struct coord *c)
{
	const struct straggling *s = &c->straggling;
	struct peer_order order = {.type = PEER_STRAGGLERS};
	struct peer_stragglers *m = &order.stragglers;
	*m = (struct peer_stragglers){.epoch = c->epoch};
	for (uint32_t i = 0; i < s->nnodes; i++)
		add(m, &s->nodes[i].is, (struct peer_straggler){.whole = true, .node = i});
	for (uint32_t r = 0; r < s->world; r++)
		add(m, &s->ranks[r].is, (struct peer_straggler){.rank = r, .node = s->ranks[r].node});
	coord_each(c, n)
	{
		add_own_parts(m, s, n);
		coord_order(c, n, &order);
	}
}

void coord_pace(struct coord *c, struct coord_from from, const struct peer_pace *m)
{
	if (!coord_current(c, from) || c->entered != c->epoch || c->resuming || !begin(c))
		return;
	if (!are_its_ranks(c, from.node, m)) {
		straggling_end(&c->straggling);
		return;
	}
	for (uint32_t i = 0; i < m->n; i++)
		straggling_take(&c->straggling, m->of[i].rank, m->clock_ns,
				&(struct straggling_sample){m->of[i].step, m->of[i].waited_ns, m->of[i].left});
	if (straggling_judge(&c->straggling, clock_now()))
		tell(c);
}
