/* Whether the other side of a session is still there: link/liveness.h, with the frames that it takes. */
#include "cluster/net/engine.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"

enum { KEEP_MS = 10000 };

/* A session that is not used may outlive its way for so long. */
static uint64_t keep_ns(const struct net *net)
{
	return max_u64(KEEP_MS * CLOCK_NS_PER_MS, 2 * net->timeout);
}

void attend_begin(struct peer *p, uint64_t now)
{
	link_keep(p->link, keep_ns(p->net));
	p->heard = now;
	p->heard_by_others = 0;
	p->clock_asked = 0;
	liveness_begin(&p->liveness, p->net->timeout, TICK_MS * CLOCK_NS_PER_MS, now);
	p->net->changed = true;
	net_look_soon(p);
}

void attend_heard(struct peer *p, const struct frame *frame)
{
	p->heard = clock_now();
	p->net->answered |= p->liveness.asked;
	liveness_heard(&p->liveness, frame->kind == FRAME_ASK, p->heard);
	if (frame->kind != FRAME_DATA)
		return;
	liveness_use(&p->liveness, p->heard);
	net_look_at(p, liveness_due(&p->liveness, p->heard));
}

void attend_answer(struct peer *p)
{
	pthread_mutex_lock(&p->net->lock);
	p->told = p->consumed;
	pthread_mutex_unlock(&p->net->lock);
	post_small(p, FRAME_BEAT, p->told);
}

/* Rosters that change are not alike at all times: what is said of a node that is not known here is of no use. */
void attend_doubt(struct peer *p, uint64_t value)
{
	struct net *net = p->net;
	uint32_t node = (uint32_t)(value >> 32), silent_ms = (uint32_t)value;
	uint64_t now = clock_now();
	attend_answer(p);
	if (node >= net->known->n || node == net->self_index || node == p->node || !net->peers[node].id)
		return;
	struct peer *of = &net->peers[node];
	log_debug("node %s has no answer of node %s, which is now asked from here, too", p->name, of->name);
	of->heard_by_others = max_u64(of->heard_by_others, now - min_u64(now, silent_ms * CLOCK_NS_PER_MS));
	liveness_doubt(&of->liveness, p->node, now);
	net_look_at(of, now);
}

/* Who does not hear this either is not to be waited for longer. */
static void spread_doubt(struct peer *of, uint64_t now)
{
	struct net *net = of->net;
	uint64_t value = frame_doubt(of->node, (uint32_t)min_u64((now - of->heard) / CLOCK_NS_PER_MS, UINT32_MAX));
	log_debug("there is no answer of node %s: all others are told", of->name);
	for (unsigned i = 0; i < net->known->n; i++) {
		struct peer *p = &net->peers[i];
		if (!p->id || p == of)
			continue;
		liveness_ask(&p->liveness, now);
		post_small(p, FRAME_DOUBT, value);
		net_look_soon(p);
	}
}

static bool has_session(const void *arg, unsigned node)
{
	const struct net *net = arg;
	return net->peers[node].id;
}

static void watch_neighbours(struct net *net, bool watched)
{
	for (unsigned i = 0; i < NEIGHBOURS; i++) {
		if (net->neighbours[i] == NEIGHBOUR_NONE)
			continue;
		struct peer *p = &net->peers[net->neighbours[i]];
		liveness_watch(&p->liveness, watched);
		net_look_soon(p);
	}
}

void attend_neighbours(struct net *net)
{
	if (!net->changed)
		return;
	net->changed = false;
	watch_neighbours(net, false);
	neighbours_find(net->known->n, net->self_index, has_session, net, net->neighbours);
	watch_neighbours(net, true);
}

void attend_tick(struct peer *p, uint64_t now)
{
	switch (liveness_look(&p->liveness, now)) {
	case LIVENESS_ASK:
		post_small(p, FRAME_ASK, p->told);
		break;
	case LIVENESS_DOUBT:
		spread_doubt(p, now);
		break;
	case LIVENESS_LOST:
		peer_end(p, -ETIMEDOUT);
		break;
	default:
		break;
	}
}
