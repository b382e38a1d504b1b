/* Who is asked whether it is still there, and what of: as cluster/net/attend.c does it. */
#include "net_private.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "cluster/link/neighbours.h"
#include "world.h"

enum { LOOKS = 50 /* in the limit */ };

#define KEEP_NS (10 * CLOCK_NS_PER_S) /* the kernels tell of a session without a way */

static void say(struct session *s, unsigned from, const struct frame *f)
{
	if (other_of(s, from)->state != SIDE_GONE)
		push_frame(s, from, f, NULL);
}

static struct side *up(const struct net *net, unsigned node)
{
	struct side *me = node == net->self ? NULL : side_of(*pair(net->self, node), net->self);
	return me && me->state == SIDE_UP ? me : NULL;
}

void attend_begin(struct net *net, struct side *me)
{
	me->heard_ns = me->way_ns = clock_now();
	liveness_begin(&me->liveness, net->timeout_ns, net->timeout_ns / LOOKS, me->heard_ns);
}

void attend_use(struct side *me)
{
	liveness_use(&me->liveness, clock_now());
}

static void doubt(struct net *net, unsigned by, const struct frame *f)
{
	struct side *of = up(net, f->doubted);
	if (!of || f->doubted == by)
		return;
	of->heard_ns = max_u64(of->heard_ns, f->heard_ns);
	liveness_doubt(&of->liveness, by, clock_now());
}

void attend_heard(struct net *net, struct session *s, const struct frame *f)
{
	struct side *me = side_of(s, net->self);
	me->heard_ns = clock_now();
	liveness_heard(&me->liveness, f->kind == FRAME_ASK, me->heard_ns);
	if (f->kind == FRAME_MESSAGE)
		attend_use(me);
	if (f->kind == FRAME_ASK || f->kind == FRAME_DOUBT)
		say(s, net->self, &(struct frame){.kind = FRAME_BEAT});
	if (f->kind == FRAME_DOUBT)
		doubt(net, other_of(s, net->self)->node, f);
}

static void spread_doubt(struct net *net, unsigned of)
{
	struct frame f = {.kind = FRAME_DOUBT, .doubted = of, .heard_ns = up(net, of)->heard_ns};
	for (unsigned node = 0; node < net_world.n; node++) {
		struct side *me = node == of ? NULL : up(net, node);
		if (!me)
			continue;
		liveness_ask(&me->liveness, clock_now());
		say(*pair(net->self, node), net->self, &f);
	}
}

static bool has_session(const void *arg, unsigned node)
{
	return up(arg, node);
}

static bool is_neighbour(const struct net *net, unsigned node)
{
	unsigned found[NEIGHBOURS];
	neighbours_find(net_world.n, net->self, has_session, net, found);
	return found[0] == node || found[1] == node;
}

static bool lost_its_way(const struct net *net, struct side *me, unsigned node)
{
	const struct net *other = net_world.nets[node];
	bool way = other && !other->dead && !net_world.cut[net->self][node] && !net_world.cut[node][net->self];
	*(way ? &me->way_ns : &me->cut_ns) = clock_now();
	return clock_now() - me->way_ns >= KEEP_NS;
}

void attend_polled(struct net *net)
{
	uint64_t now = clock_now();
	if (now - net->polled_ns >= net->timeout_ns / LIVENESS_ASKS)
		net->stalled_ns = now;
	net->polled_ns = now;
}

/* Nobody is lost who was there, polled, and could be heard. */
static void check_lost(const struct net *net, struct session *s)
{
	const struct side *me = side_of(s, net->self), *you = other_of(s, net->self);
	const struct net *other = net_world.nets[you->node];
	uint64_t now = clock_now(), since = now - min_u64(now, 2 * net->timeout_ns);
	bool there = you->state == SIDE_UP && other && !other->dead,
	     slow = net_world.rate[you->node][net->self] || net_world.rate[net->self][you->node];
	bool well = there && other->stalled_ns < since && now - other->polled_ns < net->timeout_ns / LIVENESS_ASKS;
	SIM_CHECK(!well || slow || me->cut_ns > since, "node %u has lost node %u, which was there", net->self,
		  you->node);
}

bool attend_look(struct net *net, struct session *s)
{
	struct side *me = side_of(s, net->self);
	unsigned node = other_of(s, net->self)->node;
	liveness_watch(&me->liveness, is_neighbour(net, node));
	enum liveness_does does = liveness_look(&me->liveness, clock_now());
	if (does == LIVENESS_ASK)
		say(s, net->self, &(struct frame){.kind = FRAME_ASK});
	else if (does == LIVENESS_DOUBT)
		spread_doubt(net, node);
	bool cut = lost_its_way(net, me, node);
	if (does == LIVENESS_LOST)
		check_lost(net, s);
	return does == LIVENESS_LOST || cut;
}
