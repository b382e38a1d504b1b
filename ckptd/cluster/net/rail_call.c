/* Who is at the other end of a rail: calls to the nodes that copies go to, and those of nodes that copy to us. Only words that prove the session
 * (rail_words.h) open one. Anybody may call; who does not prove it is refused and changes nothing. */
#include "cluster/link/rail_words.h"
#include "cluster/net/engine.h"

#include "base/clock.h"
#include "base/log.h"

static void hang_up(struct peer *p)
{
	rail_hang_up(p->rails.mine);
	p->rails.mine = NULL;
	p->rails.ready = false;
}

void rail_part(struct peer *p)
{
	hang_up(p);
	rail_hang_up(p->rails.theirs);
	p->rails.theirs = NULL;
}

void rail_fail_call(struct peer *p, int rc)
{
	struct rails *r = &p->rails;
	log_debug("node %s does not take a rail for copies: %s", p->name, err_name(rc));
	hang_up(p);
	r->call_at = clock_deadline(r->backoff_ms * CLOCK_NS_PER_MS);
	r->backoff_ms = 2 * r->backoff_ms < BACKOFF_MAX_MS ? 2 * r->backoff_ms : BACKOFF_MAX_MS;
}

void rail_call_node(struct peer *p)
{
	struct net *net = p->net;
	struct rails *r = &p->rails;
	uint8_t words[RAIL_WORDS];
	r->since = clock_now();
	if (!rail_words_say(p->link, net->self_index, ++r->attempts, words) ||
	    rail_call(&net->copies, &p->address, words, sizeof(words), &r->mine)) {
		r->mine = NULL;
		rail_fail_call(p, -ENOBUFS);
	}
	net->look = true;
}

/* ---- who calls --------------------------------------------------------------------------------------------------- */

/* Of the node that has called with these words: NULL: they prove nothing, or were said before. */
static struct peer *find_caller(struct net *net, const struct rail_event *event, struct rail_words *words)
{
	if (rail_words_decode(event->words, event->len, words) || words->speaker >= net->known->n)
		return NULL;
	struct peer *p = &net->peers[words->speaker];
	bool proved = p->link && words->call > p->rails.heard && rail_words_proved(p->link, words);
	return proved ? p : NULL;
}

static void answer(struct net *net, const struct rail_event *event)
{
	struct rail_words words;
	uint8_t own[RAIL_WORDS];
	struct peer *p = find_caller(net, event, &words);
	if (!p || !rail_words_say(p->link, net->self_index, words.call, own)) {
		log_debug("a stranger calls for copies, and is sent away");
		net_refuse(net);
		rail_refuse(&net->copies, event);
		return;
	}
	rail_hang_up(p->rails.theirs); /* it opens one only when it has none: the former one is over */
	p->rails.theirs = NULL;
	p->rails.heard = words.call;
	int rc = rail_accept(&net->copies, event, own, sizeof(own), &p->rails.theirs);
	if (rc) {
		p->rails.theirs = NULL;
		log_debug("node %s cannot be given a rail: %s", p->name, err_name(rc));
	}
}

/* ---- how a call ends --------------------------------------------------------------------------------------------- */

static bool is_node(const struct peer *p, const struct rail_event *event)
{
	struct rail_words words;
	return !rail_words_decode(event->words, event->len, &words) && words.speaker == p->node &&
	       words.call == p->rails.attempts && rail_words_proved(p->link, &words);
}

static void connected(struct peer *p, const struct rail_event *event)
{
	if (!is_node(p, event)) {
		net_refuse(p->net);
		rail_fail_call(p, -EACCES);
		return;
	}
	p->rails.ready = true;
	net_busy(p);
}

static bool is(const struct fid_ep *ep, const struct rail_event *event)
{
	return ep && &ep->fid == event->ep;
}

static void tell(struct peer *p, const struct rail_event *event)
{
	bool over = event->news == RAIL_ENDED;
	if (is(p->rails.theirs, event) && over) {
		rail_hang_up(p->rails.theirs);
		p->rails.theirs = NULL;
	} else if (is(p->rails.mine, event)) {
		if (!over)
			connected(p, event);
		else if (p->rails.ready)
			copy_cut(p, -ECONNRESET);
		else
			rail_fail_call(p, -ECONNRESET);
	}
}

void rail_news_of(struct net *net, const struct rail_event *event)
{
	if (event->news == RAIL_CALLED) {
		answer(net, event);
		return;
	}
	for (unsigned i = 0; i < net->known->n; i++)
		tell(&net->peers[i], event);
}
