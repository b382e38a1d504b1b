/* Whether the other side of a session is still there: link/liveness.h, with the frames that it takes. */
#include "cluster/net/engine.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

enum { KEEP_MS = 10000 };

/* A session that is not used may outlive its way for so long. */
static uint64_t keep_ns(const struct net *net)
{
	return max_u64(KEEP_MS * CLOCK_NS_PER_MS, 2 * net->timeout);
}

static void tell_silence(struct peer *p)
{
	bool silent = liveness_silent(&p->liveness);
	if (silent == p->told_silent)
		return;
	p->told_silent = silent;
	LOCK_SCOPE(&p->net->lock);
	peer_set_silent(p, silent && p->id);
}

void attend_begin(struct peer *p, uint64_t now)
{
	link_keep(p->link, keep_ns(p->net));
	p->heard = now;
	p->heard_by_others = 0;
	p->clock_asked = 0;
	liveness_begin(&p->liveness, p->net->timeout, TICK_MS * CLOCK_NS_PER_MS, now);
	p->net->changed = true;
	tell_silence(p);
	net_look_soon(p);
}

void attend_heard(struct peer *p, const struct frame *frame)
{
	p->heard = clock_now();
	p->net->answered |= p->liveness.asked;
	liveness_heard(&p->liveness, frame->kind == FRAME_ASK, p->heard);
	tell_silence(p);
	if (p->unsure)
		net_busy(p);
	p->unsure = false;
	if (frame->kind != FRAME_DATA)
		return;
	attend_use(p, p->heard);
	net_look_at(p, liveness_due(&p->liveness, p->heard));
}

void attend_answer(struct peer *p)
{
	pthread_mutex_lock(&p->net->lock);
	p->told = p->consumed;
	pthread_mutex_unlock(&p->net->lock);
	post_small(p, FRAME_BEAT, p->told);
}

void attend_use(struct peer *p, uint64_t now)
{
	liveness_use(&p->liveness, now);
	parking_use(&p->parking, now);
}

static bool has_session(const void *arg, unsigned node)
{
	const struct net *net = arg;
	return net->peers[node].id;
}

static void watch_neighbours(struct net *net, bool watched, uint64_t now)
{
	for (unsigned i = 0; i < NEIGHBOURS; i++) {
		if (net->neighbours[i] == NEIGHBOUR_NONE)
			continue;
		struct peer *p = &net->peers[net->neighbours[i]];
		liveness_watch(&p->liveness, watched);
		if (watched)
			rumour_tell_all(p, now);
		net_look_soon(p);
	}
}

void attend_neighbours(struct net *net, uint64_t now)
{
	if (!net->changed)
		return;
	net->changed = false;
	watch_neighbours(net, false, now);
	neighbours_find(net->known->n, net->self_index, has_session, net, net->neighbours);
	watch_neighbours(net, true, now);
}

void attend_tick(struct peer *p, uint64_t now)
{
	enum liveness_does does = liveness_look(&p->liveness, now);
	tell_silence(p);
	switch (does) {
	case LIVENESS_ASK:
		post_small(p, FRAME_ASK, p->told);
		break;
	case LIVENESS_DOUBT:
		rumour_doubt(p, now);
		break;
	case LIVENESS_LOST:
		park_link_ended(p, -ETIMEDOUT);
		break;
	default:
		break;
	}
}

unsigned net_silent(const struct net *net)
{
	struct net *n = net->peers[0].net; /* not const: its lock is taken */
	LOCK_SCOPE(&n->lock);
	return n->nsilent;
}
