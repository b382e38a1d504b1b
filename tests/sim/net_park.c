/* Sessions without a connection: as cluster/net/park.c has them. What the two ends say to each other until they agree is left out: a session is
 * parked when both can do without its connection, and goes on when a call of one of them has reached the other. */
#include "net_private.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "rng.h"
#include "world.h"

/* ---- who rests ---------------------------------------------------------------------------------------------------- */

/* Nearly all sessions of many nodes are parked. To look at each of them with each poll would take hours, and would find that nothing is to be
 * done. So a node leaves out those of which that is certain until park_wake(). */
static bool rests(struct net *net, struct session *s)
{
	const struct side *me = side_of(s, net->self), *you = other_of(s, net->self);
	bool idle = !me->end && !me->parking.wanted && !me->calls && !you->calls && list_empty(&me->ops);
	return idle && me->parking.look_at == PARKING_NEVER && you->state == SIDE_UP &&
	       open_between(net->self, you->node);
}

static void set_awake(struct net *net, unsigned peer, bool awake)
{
	uint64_t bit = 1ull << peer % 64, *word = &net->awake[peer / 64];
	*word = awake ? *word | bit : *word & ~bit;
}

void park_wake(const struct session *s)
{
	for (unsigned i = 0; s && i < 2; i++) {
		struct net *net = net_world.nets[s->side[i].node];
		if (net)
			set_awake(net, s->side[!i].node, true);
	}
}

unsigned park_next_awake(const struct net *net, unsigned from)
{
	while (from < net_world.n) {
		uint64_t left = net->awake[from / 64] >> from % 64;
		if (left)
			return from + (unsigned)__builtin_ctzll(left) < net_world.n
				       ? from + (unsigned)__builtin_ctzll(left)
				       : net_world.n;
		from += 64 - from % 64;
	}
	return net_world.n;
}

/* ---- to park, and to go on ---------------------------------------------------------------------------------------- */

static bool shows_memory(const struct net *net, unsigned node)
{
	list_for(it, &net->regions)
		if (list_entry(it, struct net_region, link)->node == node)
			return true;
	return false;
}

static bool can_park(const struct net *net, const struct side *me, unsigned node)
{
	return me->state == SIDE_UP && !me->end && !me->dropped && !me->target_cut && list_empty(&me->frames) &&
	       list_empty(&me->ops) && !me->liveness.watched && !me->liveness.asked && clock_now() >= me->parking.at &&
	       !shows_memory(net, node) && !(net->events.minds && net->events.minds(net->events.arg, node));
}

void park_look(struct net *net, struct session *s)
{
	struct side *me = side_of(s, net->self), *you = other_of(s, net->self);
	const struct net *other = net_world.nets[you->node];
	if (!other || other->dead || !open_between(net->self, you->node) || !list_empty(&s->parts) ||
	    !can_park(net, me, you->node) || !can_park(other, you, net->self))
		return;
	s->parked = true;
	parking_park(&me->parking);
	parking_park(&you->parking);
	me->calls = you->calls = false;
	net_world.counts.parked++;
}

void park_want(const struct net *net, struct session *s)
{
	struct side *me = side_of(s, net->self);
	if (!s->parked || me->parking.wanted)
		return;
	parking_want(&me->parking, net->timeout_ns, net->timeout_ns / LOOKS, clock_now());
	park_wake(s);
	me->call_due = arrival(net->self, other_of(s, net->self)->node, 0);
}

static void go_on(struct net *net, struct session *s)
{
	struct side *me = side_of(s, net->self), *you = other_of(s, net->self);
	s->parked = false;
	park_wake(s);
	for (unsigned i = 0; i < 2; i++) {
		struct side *side = &s->side[i];
		uint64_t due = arrival(s->side[!i].node, side->node, 0);
		list_for(it, &side->frames) {
			struct frame *f = list_entry(it, struct frame, link);
			f->due = max_u64(f->due, due);
		}
		side->calls = false;
	}
	attend_begin(net, me);
	attend_begin(net_world.nets[you->node], you);
	attend_use(me);
	attend_use(you);
	attend_tell_all(net, s);
	attend_tell_all(net_world.nets[you->node], s);
	net_world.counts.resumed++;
}

/* A call that this side makes: it gets there, or to where nobody is any more. */
static void call(const struct net *net, struct session *s, struct side *me, unsigned node)
{
	const struct net *other = net_world.nets[node];
	if (me->calls || clock_now() < me->call_due || !open_between(net->self, node))
		return;
	park_wake(s);
	if (other && !other->dead)
		me->calls = true;
	else if (s->refuses)
		me->end = -ECONNRESET;
}

bool park_resumed(struct net *net, struct session *s)
{
	struct side *you = other_of(s, net->self);
	if (!you->calls || you->state != SIDE_UP || !open_between(net->self, you->node))
		return false;
	go_on(net, s);
	return true;
}

bool park_is_lost(struct net *net, struct session *s)
{
	struct side *me = side_of(s, net->self);
	unsigned node = other_of(s, net->self)->node;
	if (attend_is_neighbour(net, node) || clock_now() >= me->parking.look_at)
		park_want(net, s);
	if (me->parking.wanted)
		call(net, s, me, node);
	(void)attend_lost_its_way(net, me, node);
	bool lost = !me->end && parking_is_lost(&me->parking, clock_now());
	if (lost)
		attend_check_lost(net, s, 2 * max_u64(net->timeout_ns, PARKING_CALL_MS * CLOCK_NS_PER_MS));
	else if (rests(net, s))
		set_awake(net, node, false);
	return lost;
}
