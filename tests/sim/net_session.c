#include "net_private.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "rng.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

struct net_world net_world;

struct session **pair(unsigned a, unsigned b)
{
	return a < b ? &net_world.pairs[a][b] : &net_world.pairs[b][a];
}

struct side *side_of(struct session *s, unsigned node)
{
	return s ? &s->side[s->side[1].node == node] : NULL;
}

struct side *other_of(struct session *s, unsigned node)
{
	return &s->side[s->side[0].node == node];
}

bool chance(unsigned per_thousand)
{
	return per_thousand && rng_below(world_rng(), 1000) < per_thousand;
}

uint64_t arrival(unsigned from, unsigned to, uint64_t bytes)
{
	uint64_t now = clock_now(), due = now + rng_below(world_rng(), net_world.faults.delay_ns + 1);
	uint64_t *busy = &net_world.busy_ns[from][to];
	if (!net_world.rate[from][to])
		return due;
	*busy = max_u64(*busy, now) + bytes * CLOCK_NS_PER_S / net_world.rate[from][to];
	return max_u64(due, *busy);
}

static void drop_frames(struct side *side)
{
	for (struct list *node; (node = list_pop(&side->frames));)
		free(list_entry(node, struct frame, link));
	side->nframes = 0;
	side->nbytes = 0;
}

void session_free(struct session *s)
{
	*pair(s->side[0].node, s->side[1].node) = NULL;
	list_for_safe(node, &s->parts)
		part_free(list_entry(node, struct part, link));
	for (int i = 0; i < 2; i++)
		drop_frames(&s->side[i]);
	free(s);
}

void push_frame(struct session *s, unsigned from, const struct frame *head, const void *body)
{
	struct side *to = other_of(s, from);
	struct frame *f = malloc(sizeof(*f) + head->len);
	SIM_CHECK(f, "memory");
	*f = *head;
	if (f->len)
		memcpy(f->body, body, f->len);
	f->due = arrival(from, to->node, f->len);
	if (!list_empty(&to->frames))
		f->due = max_u64(f->due, list_entry(to->frames.prev, struct frame, link)->due);
	list_push(&to->frames, &f->link);
	net_world.counts.frames++;
	to->nframes += !f->kind;
	to->nbytes += f->len;
}

static void close_regions(struct net *net, unsigned node)
{
	list_for_safe(it, &net->regions) {
		struct net_region *region = list_entry(it, struct net_region, link);
		if (region->node == node) {
			list_remove(&region->link);
			region->net = NULL;
		}
	}
}

void leave(struct net *net, struct session *s, struct list *ops, bool told, int rc)
{
	struct side *me = side_of(s, net->self), *you = other_of(s, net->self);
	me->state = SIDE_GONE;
	net->up[you->node] = false;
	net->changes++;
	park_wake(s);
	drop_frames(me);
	close_regions(net, you->node);
	abandon_parts(s, (unsigned)(me - s->side));
	list_init(ops);
	for (struct list *node; (node = list_pop(&me->ops));)
		list_push(ops, node);
	s->refuses = s->parked && told;
	if (you->state == SIDE_GONE)
		session_free(s);
	else if (told && !s->parked)
		push_frame(s, net->self, &(struct frame){.end = rc}, NULL);
	net_world.counts.ended++;
}

bool open_between(unsigned a, unsigned b)
{
	return !net_world.cut[a][b] && !net_world.cut[b][a];
}

/* As far as it has been told of nodes. */
static bool admits(const struct net *net, const struct net *other)
{
	uint64_t expected = net->expected[other->self];
	return net->known[other->self] && (!expected || expected == other->incarnation);
}

void connect_to(struct net *net, unsigned peer)
{
	struct net *other = net_world.nets[peer];
	struct session **at = pair(net->self, peer);
	if (!other || other->dead || !open_between(net->self, peer) || !admits(net, other) || !admits(other, net))
		return;
	if (*at) {
		/* Who has lost the session asks anew, and so the other learns of it at the latest. */
		struct side *you = other_of(*at, net->self);
		if (side_of(*at, net->self)->state == SIDE_GONE && you->state == SIDE_UP && !you->end) {
			you->end = -ECONNRESET;
			park_wake(*at);
		}
		return;
	}
	struct session *s = calloc(1, sizeof(*s));
	SIM_CHECK(s, "memory");
	*at = s;
	list_init(&s->parts);
	unsigned nodes[2] = {net->self < peer ? net->self : peer, net->self < peer ? peer : net->self};
	for (int i = 0; i < 2; i++) {
		struct side *side = &s->side[i];
		side->node = nodes[i];
		side->number = ++net_world.numbers;
		side->due = arrival(nodes[!i], nodes[i], 0);
		list_init(&side->frames);
		list_init(&side->ops);
	}
	net_world.counts.sessions++;
}
