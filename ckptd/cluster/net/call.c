/* Our calls to a node, until one of them is set up. Which end calls:
 *
 *	The end of the lower index calls at once, the other one only where that does not help. Of a session that is parked, whoever wants something.
 *	Where both have called, that of the lower index counts from its first message on: the other call waits at its door (door.c).
 *	A node whose call has shown that it knows the key, and is being answered, is not called meanwhile. */
#include "cluster/net/engine.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"

void call_soon(struct peer *p)
{
	p->backoff_ms = BACKOFF_MIN_MS;
	p->call_at = clock_deadline(p->node > p->net->self_index ? 0 : CALL_LATER_MS * CLOCK_NS_PER_MS);
}

void call_end(struct peer *p)
{
	net_bury(p->net, p->call);
	p->call = NULL;
	door_call_ended(p);
}

bool call_counts(const struct peer *p)
{
	return p->call && p->call->state != LINK_CONNECTING && p->net->self_index < p->node;
}

void call_fail(struct peer *p, int rc)
{
	log_debug("node %s does not answer: %s", p->name, p->call && p->call->why ? p->call->why : err_name(rc));
	if (rc == -EACCES || rc == -EPROTO)
		net_refuse(p->net);
	call_end(p);
	if (park_is(p) && rc == -ECONNREFUSED) { /* nobody is there */
		peer_end(p, -ECONNRESET);
		return;
	}
	p->failures++;
	p->call_at = clock_deadline(p->backoff_ms * CLOCK_NS_PER_MS);
	net_look_at(p, p->call_at);
	p->backoff_ms = 2 * p->backoff_ms < BACKOFF_MAX_MS ? 2 * p->backoff_ms : BACKOFF_MAX_MS;
}

static uint64_t patience(const struct peer *p)
{
	return max_u64(p->net->timeout, CALL_MS * CLOCK_NS_PER_MS);
}

/* ---- to go on ---------------------------------------------------------------------------------------------------- */

/* Its call is answered just now, and ours has cost nothing so far. Whoever has recorded such a call can have that happen once. */
static bool give_way(struct peer *p)
{
	if (!p->answered || p->gave_way || p->call->state != LINK_CONNECTING)
		return false;
	p->gave_way = true;
	call_end(p);
	p->call_at = clock_now();
	net_look_at(p, call_due(p));
	return true;
}

bool call_go_on(struct peer *p)
{
	if (give_way(p))
		return false;
	int rc = link_shake(p->call, p->net->credentials);
	if (rc < 0)
		call_fail(p, rc);
	else if (!rc)
		net_watch(p->net, p->call);
	return rc > 0;
}

/* ---- the clock --------------------------------------------------------------------------------------------------- */

static void begin_call(struct peer *p)
{
	p->call = link_call(p->net->credentials, p->node, p->failures, &p->where);
	if (!p->call) {
		call_fail(p, -ENOBUFS);
		return;
	}
	p->call->peer = p;
	net_watch(p->net, p->call);
}

/* A call that is on its way is given up, or the next one is due. A node whose call is being answered is given as long as one of ours. */
uint64_t call_due(const struct peer *p)
{
	if (p->call)
		return p->call->since + patience(p);
	return p->call_at + (p->answered ? patience(p) : 0);
}

void call_tick(struct peer *p, uint64_t now)
{
	if (p->call && now >= call_due(p))
		call_fail(p, -ETIMEDOUT);
	if (!p->call && now >= call_due(p))
		begin_call(p);
}

void call_now(struct peer *p)
{
	p->backoff_ms = BACKOFF_MIN_MS;
	p->call_at = clock_now();
}
