/* Standstill: when a rank hangs, soon all of them wait for it, on whatever node they are. So nothing is said before the ranks of all nodes are
 * silent: until then some are on their way to where they will wait. Who is to blame then is told by where they all are
 * (format/arena/culprit.h). What was said is said again when it changes, but not more often than once in AGAIN_NS: a job may have many nodes. */
#include "coordinator/coordinator_private.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define AGAIN_NS CLOCK_NS_PER_S

/* ---- what is reported ------------------------------------------------------------------------------------------- */

static void set_silent(struct coord *c, uint32_t node, bool silent)
{
	struct coord_node *n = &c->nodes[node];
	if (n->silent == silent)
		return;
	c->standstill.silent += silent ? n->ranks : -n->ranks;
	c->standstill.changed = true;
	n->silent = silent;
}

/* Of a job on one node nobody has said who has which rank, when its epoch goes on after a restart. */
static uint32_t owner(const struct coord *c, uint32_t rank)
{
	return c->nnodes == 1 ? 0 : c->owners[rank];
}

/* All ranks that the node has, and no others. */
static bool are_its_ranks(const struct coord *c, uint32_t node, const struct peer_silent *m)
{
	bool its = m->n && m->n == c->nodes[node].ranks;
	for (uint32_t i = 0; its && i < m->n; i++)
		its = m->of[i].rank < c->world && owner(c, m->of[i].rank) == node;
	return its;
}

/* False: there is no memory for that. */
static bool keep(struct coord *c, const struct peer_silent *m)
{
	uint64_t now = clock_now();
	if (!c->standstill.all)
		c->standstill.all = calloc(c->world, sizeof(*c->standstill.all));
	for (uint32_t i = 0; c->standstill.all && i < m->n; i++) {
		struct suspect *s = &c->standstill.all[m->of[i].rank];
		*s = m->of[i];
		s->is.beat_ns = now - min_u64(s->is.beat_ns, now);
	}
	return c->standstill.all;
}

void coord_silent(struct coord *c, struct coord_from from, const struct peer_silent *m)
{
	if (!coord_current(c, from) || c->entered != c->epoch || c->resuming)
		return;
	bool silent = are_its_ranks(c, from.node, m) && keep(c, m);
	set_silent(c, from.node, silent);
	c->standstill.changed |= silent;
	if (c->standstill.silent == c->world)
		coord_standstill_tick(c); /* they wait for it: at once */
}

void coord_standstill_leave(struct coord *c, uint32_t node)
{
	set_silent(c, node, false);
}

/* Nodes know by the epoch that what they were told is over. */
void coord_standstill_forget(struct coord *c)
{
	coord_each(c, n) set_silent(c, n, false);
	c->standstill.told = (struct peer_standstill){0};
}

/* ---- what is told ------------------------------------------------------------------------------------------------ */

static bool tells_the_same(const struct peer_standstill *a, const struct peer_standstill *b)
{
	return a->is == b->is && a->named == b->named && a->rank == b->rank && !strcmp(a->text, b->text);
}

static void tell(struct coord *c, const struct peer_standstill *m)
{
	if (tells_the_same(m, &c->standstill.told))
		return;
	c->standstill.told = *m;
	c->standstill.told_ns = clock_now();
	struct peer_order order = {.type = PEER_STANDSTILL, .standstill = *m};
	coord_each(c, n) coord_order(c, n, &order);
}

static void judge(struct coord *c)
{
	struct suspect *all = c->standstill.all; /* of each rank: no other one may be silent */
	uint64_t now = clock_now(), last = 0;
	culprit_count(all, c->world);
	for (uint32_t r = 0; r < c->world; r++)
		last = max_u64(last, all[r].is.beat_ns);
	const struct suspect *culprit = culprit_find(all, c->world, now);
	struct peer_standstill m = {.epoch = c->epoch,
				    .is = true,
				    .named = culprit_stands_out(all, c->world, culprit),
				    .rank = culprit->rank,
				    .node = owner(c, culprit->rank),
				    .silent_ns = now - last};
	culprit_text(all, c->world, culprit, m.text);
	tell(c, &m);
}

void coord_standstill_tick(struct coord *c)
{
	struct coord_standstill *s = &c->standstill;
	bool is = s->silent == c->world;
	if (!s->changed || (is && s->told.is && clock_now() - s->told_ns < AGAIN_NS))
		return;
	s->changed = false;
	if (is)
		judge(c);
	else
		tell(c, &(struct peer_standstill){.epoch = c->epoch});
}
