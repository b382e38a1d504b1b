/* What time the other nodes have: each of the next ones in the roster that have a connection is asked by itself, and answers at once. */
#include "cluster/net/engine.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "cluster/link/clock_offset.h"

static void ask(struct peer *p)
{
	if (p->clock_asked)
		return;
	p->clock_asked = clock_now();
	post_small(p, FRAME_CLOCK_ASK, 0);
}

void clocks_ask(struct net *net)
{
	unsigned n = net->known->n, asked = 0;
	for (unsigned i = 1; i < n && asked < NET_CLOCKS; i++) {
		struct peer *p = &net->peers[(net->self_index + i) % n];
		if (!p->link || p->parking.said)
			continue;
		ask(p);
		asked++;
	}
}

void clocks_answer(struct peer *p)
{
	post_small(p, FRAME_CLOCK, clock_wall());
}

int clocks_take(struct peer *p, uint64_t wall)
{
	if (!p->clock_asked)
		return -EPROTO;
	struct net_clock clock = clock_offset(p->clock_asked, clock_now(), clock_wall(), wall);
	p->clock_asked = 0;
	LOCK_SCOPE(&p->net->lock);
	p->clock = clock;
	p->clock_session = p->id;
	net_tell(p);
	return 0;
}
