/* Who is asked whether it is still there, and what of: as cluster/net/attend.c does it. */
#include "net_private.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "world.h"

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

static struct side *with_connection(const struct net *net, unsigned node)
{
	struct side *me = up(net, node);
	return me && !(*pair(net->self, node))->parked ? me : NULL;
}

static bool has_session(const void *arg, unsigned node)
{
	return ((const struct net *)arg)->up[node];
}

void attend_begin(struct net *net, struct side *me)
{
	me->heard_ns = me->way_ns = clock_now();
	liveness_begin(&me->liveness, net->timeout_ns, net->timeout_ns / LOOKS, me->heard_ns);
	parking_begin(&me->parking, net_world.park_ns ? net_world.park_ns : PARKING_IDLE_S * CLOCK_NS_PER_S,
		      me->heard_ns);
}

void attend_use(struct side *me)
{
	liveness_use(&me->liveness, clock_now());
	parking_use(&me->parking, clock_now());
}

static void tell(struct net *net, unsigned node, enum frame_kind kind, const struct rumour *rumour)
{
	struct frame f = {.kind = kind, .rumour = *rumour};
	if (node != NEIGHBOUR_NONE && node != rumour->node && with_connection(net, node))
		say(*pair(net->self, node), net->self, &f);
}

static void spread(struct net *net, enum frame_kind kind, const struct rumour *rumour)
{
	for (unsigned node = 0; node < net_world.n; node++)
		tell(net, node, kind, rumour);
}

/* They are asked for with each look at each session. */
static const unsigned *neighbours(struct net *net)
{
	if (net->neighbours_at != net->changes)
		neighbours_find(net_world.n, net->self, has_session, net, net->neighbours);
	net->neighbours_at = net->changes;
	return net->neighbours;
}

void attend_wake_neighbours(struct net *net)
{
	if (net->neighbours_at == net->changes)
		return;
	const unsigned *found = neighbours(net);
	for (unsigned i = 0; i < NEIGHBOURS; i++)
		if (found[i] != NEIGHBOUR_NONE)
			park_wake(*pair(net->self, found[i]));
}

static void tell_on(struct net *net, unsigned from, enum frame_kind kind, const struct rumour *rumour)
{
	const unsigned *found = neighbours(net);
	for (unsigned i = 0; i < NEIGHBOURS; i++)
		if (found[i] != from)
			tell(net, found[i], kind, rumour);
}

static void believe(struct net *net, enum frame_kind kind, const struct rumour *rumour)
{
	struct side *of = up(net, rumour->node);
	uint64_t now = clock_now();
	if (!of)
		return;
	if (with_connection(net, rumour->node)) {
		if (kind == FRAME_DOUBT)
			of->heard_ns = max_u64(of->heard_ns, now - min_u64(now, rumour->ms * CLOCK_NS_PER_MS));
		liveness_doubt(&of->liveness, rumour->by, now);
	} else if (kind == FRAME_LOST) {
		parking_doubt(&of->parking, now + net->self * RUMOUR_SPREAD_MS * CLOCK_NS_PER_MS);
		park_wake(*pair(net->self, rumour->node));
	}
}

static void hear_rumour(struct net *net, unsigned from, const struct frame *f)
{
	struct rumour rumour = f->rumour;
	uint64_t now = clock_now();
	if (rumour.node == from || rumour.node == net->self || rumour.by == net->self)
		return;
	struct rumours *known = &net->rumours[rumour.node];
	if (!(f->kind == FRAME_DOUBT ? rumours_doubt(known, &rumour, net->timeout_ns, now)
				     : rumours_lost(known, &rumour, now)))
		return;
	believe(net, f->kind, &rumour);
	if (rumour.hops--)
		tell_on(net, from, f->kind, &rumour);
}

void attend_lost(struct net *net, unsigned node)
{
	struct rumour rumour = {.node = node, .by = net->self, .hops = net_world.n};
	if (rumours_lost(&net->rumours[node], &rumour, clock_now()))
		spread(net, FRAME_LOST, &rumour);
}

void attend_tell_all(struct net *net, struct session *s)
{
	for (unsigned node = 0; attend_is_neighbour(net, other_of(s, net->self)->node) && node < net_world.n; node++) {
		struct frame f = {.kind = FRAME_LOST, .rumour = {.node = node, .by = net->self, .hops = net_world.n}};
		if (node != other_of(s, net->self)->node && rumours_fresh(&net->rumours[node], &f.rumour, clock_now()))
			say(s, net->self, &f);
	}
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
	if (f->kind == FRAME_DOUBT || f->kind == FRAME_LOST)
		hear_rumour(net, other_of(s, net->self)->node, f);
}

static void spread_doubt(struct net *net, unsigned of)
{
	uint64_t now = clock_now();
	struct rumour rumour = {.node = of,
				.by = net->self,
				.ms = (uint32_t)((now - up(net, of)->heard_ns) / CLOCK_NS_PER_MS),
				.hops = net_world.n};
	(void)rumours_doubt(&net->rumours[of], &rumour, net->timeout_ns, now);
	for (unsigned node = 0; node < net_world.n; node++)
		if (node != of && with_connection(net, node))
			liveness_ask(&with_connection(net, node)->liveness, now);
	spread(net, FRAME_DOUBT, &rumour);
}

bool attend_is_neighbour(struct net *net, unsigned node)
{
	const unsigned *found = net_world.alone ? NULL : neighbours(net);
	return found && (found[0] == node || found[1] == node);
}

bool attend_lost_its_way(const struct net *net, struct side *me, unsigned node)
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
void attend_check_lost(const struct net *net, struct session *s, uint64_t within)
{
	const struct side *me = side_of(s, net->self), *you = other_of(s, net->self);
	const struct net *other = net_world.nets[you->node];
	uint64_t now = clock_now(), since = now - min_u64(now, within);
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
	liveness_watch(&me->liveness, attend_is_neighbour(net, node));
	enum liveness_does does = liveness_look(&me->liveness, clock_now());
	if (does == LIVENESS_ASK)
		say(s, net->self, &(struct frame){.kind = FRAME_ASK});
	else if (does == LIVENESS_DOUBT)
		spread_doubt(net, node);
	bool cut = attend_lost_its_way(net, me, node);
	if (does == LIVENESS_LOST)
		attend_check_lost(net, s, 2 * net->timeout_ns);
	return does == LIVENESS_LOST || cut;
}
