/* What nodes say of a third one: link/rumours.h, with the frames that it takes. */
#include "cluster/net/engine.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"

/* Who begins it tells all. */
static void spread(const struct peer *of, enum frame_kind kind, const struct rumour *rumour)
{
	struct net *net = of->net;
	for (unsigned i = 0; i < net->known->n; i++)
		if (net->peers[i].link && &net->peers[i] != of)
			post_rumour(&net->peers[i], kind, rumour);
}

/* Who has heard it, the ring: so it costs each node no more than that, however many links there are. */
static void tell_on(const struct peer *of, const struct peer *from, enum frame_kind kind, const struct rumour *rumour)
{
	struct net *net = of->net;
	for (unsigned i = 0; i < NEIGHBOURS; i++) {
		struct peer *p = net->neighbours[i] == NEIGHBOUR_NONE ? NULL : &net->peers[net->neighbours[i]];
		if (p && p->link && p != of && p != from)
			post_rumour(p, kind, rumour);
	}
}

static struct rumour own(const struct peer *of, uint64_t at, uint64_t now)
{
	return (struct rumour){.node = of->node,
			       .by = of->net->self_index,
			       .ms = (uint32_t)min_u64((now - at) / CLOCK_NS_PER_MS, UINT32_MAX),
			       .hops = of->net->known->n};
}

/* Who does not hear this either is not to be waited for longer. */
static void ask_all_but(struct peer *of, uint64_t now)
{
	struct net *net = of->net;
	for (unsigned i = 0; i < net->known->n; i++) {
		struct peer *p = &net->peers[i];
		if (!p->link || p == of)
			continue;
		liveness_ask(&p->liveness, now);
		net_look_soon(p);
	}
}

void rumour_doubt(struct peer *of, uint64_t now)
{
	struct rumour rumour = own(of, of->heard, now);
	log_debug("there is no answer of node %s: all others are told", of->name);
	(void)rumours_doubt(&of->rumours, &rumour, of->net->timeout, now);
	ask_all_but(of, now);
	spread(of, FRAME_DOUBT, &rumour);
}

void rumour_lost(struct peer *of, uint64_t now)
{
	struct rumour rumour = own(of, now, now);
	if (!of->net->stopping && rumours_lost(&of->rumours, &rumour, now))
		spread(of, FRAME_LOST, &rumour);
}

void rumour_tell_all(struct peer *to, uint64_t now)
{
	struct net *net = to->net;
	if (!to->link || to->told_rumours)
		return;
	to->told_rumours = true;
	for (unsigned i = 0; i < net->known->n; i++) {
		struct peer *of = &net->peers[i];
		struct rumour rumour = own(of, now, now);
		if (of != to && rumours_fresh(&of->rumours, &rumour, now))
			post_rumour(to, FRAME_LOST, &rumour);
	}
}

/* Each node has a time of its own to call it. */
static void look_later(struct peer *of, uint64_t now)
{
	parking_doubt(&of->parking, now + of->net->self_index * RUMOUR_SPREAD_MS * CLOCK_NS_PER_MS);
	net_look_at(of, of->parking.look_at);
}

static void believe(struct peer *of, enum frame_kind kind, const struct rumour *rumour, uint64_t now)
{
	log_debug("node %u has %s node %s", rumour->by, kind == FRAME_DOUBT ? "no answer of" : "lost", of->name);
	if (!of->link && of->id && kind == FRAME_LOST)
		look_later(of, now);
	if (!of->link)
		return;
	if (kind == FRAME_DOUBT)
		of->heard_by_others = max_u64(of->heard_by_others, now - min_u64(now, rumour->ms * CLOCK_NS_PER_MS));
	liveness_doubt(&of->liveness, rumour->by, now);
	net_look_at(of, now);
}

/* Rosters that change are not alike at all times: what is said of a node that is not known here is of no use. */
int rumour_heard(struct peer *from, const struct frame *frame)
{
	struct net *net = from->net;
	struct rumour rumour;
	uint64_t now = clock_now();
	if (rumour_decode(frame->body, frame->len, &rumour))
		return -EPROTO;
	if (frame->kind == FRAME_DOUBT)
		attend_answer(from);
	if (rumour.node >= net->known->n || rumour.node == from->node || rumour.node == net->self_index ||
	    rumour.by == net->self_index)
		return 0;
	struct peer *of = &net->peers[rumour.node];
	bool news = frame->kind == FRAME_DOUBT ? rumours_doubt(&of->rumours, &rumour, net->timeout, now)
					       : rumours_lost(&of->rumours, &rumour, now);
	if (!news)
		return 0;
	believe(of, frame->kind, &rumour, now);
	if (rumour.hops--)
		tell_on(of, from, frame->kind, &rumour);
	return 0;
}
