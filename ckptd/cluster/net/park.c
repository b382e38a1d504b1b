/* Sessions without a link: link/parking.h, with the frames that it takes. The loop is asked before one is parked, for it may mind a loss at once;
 * its answer counts until the session is used again. */
#include "cluster/net/engine.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#define TICK_NS (TICK_MS * CLOCK_NS_PER_MS)

/* With the lock. */
static bool shows_memory(const struct peer *p)
{
	list_for(node, &p->net->regions) {
		const struct net_region *region = list_entry(node, struct net_region, link);
		if (region->node == p->node && region->session == p->id && region->open)
			return true;
	}
	return false;
}

/* What the loop has left, or has yet to take. */
static bool waits_for_loop(const struct peer *p)
{
	LOCK_SCOPE(&p->net->lock);
	return p->taken != p->consumed || !list_empty(&p->revokes) || !list_empty(&p->asked) || shows_memory(p);
}

static bool wants_out(const struct peer *p)
{
	LOCK_SCOPE(&p->net->lock);
	return p->nsmalls || !list_empty(&p->letters) || !list_empty(&p->fresh) || !list_empty(&p->ops);
}

static bool is_quiet(const struct peer *p)
{
	return !p->unsure && !p->clock_asked && !p->liveness.watched && !p->liveness.asked && !p->inbox.body &&
	       !p->link->out_len && !p->nparts && !p->nowed && list_empty(&p->flying) && !wants_out(p) &&
	       !waits_for_loop(p);
}

static bool is_agreed(const struct peer *p)
{
	return p->park_agreed == p->parking.uses;
}

/* ---- to park ----------------------------------------------------------------------------------------------------- */

/* Whether it is asked just now, or was since it was used. */
static bool is_asked(const struct peer *p)
{
	return p->park_asked == p->parking.uses;
}

static void ask_loop(struct peer *p)
{
	p->park_asked = p->parking.uses;
	LOCK_SCOPE(&p->net->lock);
	p->asks = p->park_asked;
	net_tell(p);
}

void park_answer(struct peer *p)
{
	struct net *net = p->net;
	pthread_mutex_lock(&net->lock);
	uint64_t asks = p->asks;
	p->asks = 0;
	pthread_mutex_unlock(&net->lock);
	if (!asks)
		return;
	bool minds = net->events.minds && net->events.minds(net->events.arg, p->node);
	LOCK_SCOPE(&net->lock);
	*(minds ? &p->stays : &p->parks) = asks;
	net_wake(p);
}

bool park_take_answer(struct peer *p)
{
	pthread_mutex_lock(&p->net->lock);
	uint64_t parks = p->parks, stays = p->stays;
	p->parks = p->stays = 0;
	pthread_mutex_unlock(&p->net->lock);
	if (parks)
		p->park_agreed = parks;
	if (stays && stays == p->parking.uses) {
		p->park_asked = 0;
		parking_stay(&p->parking, clock_now());
	}
	return (parks || stays) && !wants_out(p);
}

/* The last that goes over the link, unless the other side wants it to stay. */
static void say(struct peer *p)
{
	static const uint8_t body[8];
	link_write(p->link, FRAME_PARK, body, sizeof(body));
	p->parking.said = true;
	liveness_ask(&p->liveness, clock_now()); /* it is to be answered */
	net_busy(p);
}

static void try(struct peer *p, uint64_t now)
{
	if (!is_asked(p))
		ask_loop(p);
	else if (!is_agreed(p) || now < parking_due(&p->parking))
		return;
	else if (is_quiet(p))
		say(p);
	else
		parking_stay(&p->parking, now);
}

int park_heard(struct peer *p, enum frame_kind kind)
{
	struct parking *parking = &p->parking;
	if (kind == FRAME_STAY) {
		if (!parking->said)
			return -EPROTO;
		parking_stay(parking, clock_now());
		net_busy(p);
		return 0;
	}
	parking->heard = true;
	if (!parking->said && is_agreed(p) && is_quiet(p))
		say(p);
	else if (!parking->said) {
		parking->heard = false;
		post_small(p, FRAME_STAY, 0);
	}
	park_flushed(p);
	return 0;
}

void park_flushed(struct peer *p)
{
	if (p->link && p->parking.said && p->parking.heard && !p->link->out_len)
		park_leave(p);
}

void park_leave(struct peer *p)
{
	struct net *net = p->net;
	log_debug("node %s: the session goes on without a connection", p->name);
	net->way->cut(p);
	if (net->way->leave)
		net->way->leave(p);
	p->reachable = p->unsure = false;
	net_bury(net, p->link);
	p->link = NULL;
	peer_set_open(p, false);
	parking_park(&p->parking);
	if (wants_out(p))
		park_want(p, clock_now());
}

void park_link_ended(struct peer *p, int rc)
{
	if (p->unsure || (p->parking.said && p->parking.heard)) {
		park_leave(p);
		return;
	}
	peer_end(p, rc);
	rumour_lost(p, clock_now());
}

/* ---- to go on ---------------------------------------------------------------------------------------------------- */

void park_want(struct peer *p, uint64_t now)
{
	if (!park_is(p) || p->parking.wanted)
		return;
	parking_want(&p->parking, p->net->timeout, TICK_NS, now);
	call_now(p);
	net_look_at(p, now);
}

static bool is_of_session(const struct peer *p, const struct hello *hello)
{
	return p->id && hello->resumes && hello->resumes == p->theirs && hello->incarnation == p->incarnation;
}

bool park_resumes(const struct peer *p, const struct hello *hello)
{
	return (!p->link || p->unsure) && is_of_session(p, hello);
}

/* Its PARK is still on the way. */
bool park_resumes_early(const struct peer *p, const struct hello *hello)
{
	return p->link && !p->unsure && is_of_session(p, hello);
}

/* ---- the clock --------------------------------------------------------------------------------------------------- */

static void tick_parked(struct peer *p, uint64_t now)
{
	if (p->liveness.watched || now >= p->parking.look_at)
		park_want(p, now);
	if (parking_is_lost(&p->parking, now))
		peer_end(p, -ETIMEDOUT);
	else if (p->parking.wanted)
		call_tick(p, now);
}

void park_tick(struct peer *p, uint64_t now)
{
	if (!p->link)
		tick_parked(p, now);
	else if (p->parking.said)
		liveness_ask(&p->liveness, now);
	else if (now >= p->parking.at && !p->liveness.watched)
		try(p, now);
}

uint64_t park_due(const struct peer *p, uint64_t now)
{
	if (!p->link)
		return p->parking.wanted || p->liveness.watched ? now : p->parking.look_at;
	if (p->parking.said)
		return p->liveness.asked ? PARKING_NEVER : now;
	if (p->liveness.watched)
		return PARKING_NEVER; /* what is a neighbour no more is looked at anew */
	if (now < p->parking.at || !is_asked(p))
		return p->parking.at;
	return is_agreed(p) ? parking_due(&p->parking) : PARKING_NEVER;
}
