/* Messages of a coordinator, and to one, that are heard once more at another time. No net does that: it stands for all the ways in which a message
 * can meet a state that it was not meant for. What is promised does not hold then, but nobody may die of it. */
#include "net_private.h"

#include "base/bytes.h"
#include "format/message/peer_coord.h"
#include "rng.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

enum { TRIES = 40 };

void stale_forget(void)
{
	struct net_stale *s = &net_world.stale;
	for (unsigned i = 0; i < NET_SIM_STALE; i++)
		free(s->kept[i].body);
	*s = (struct net_stale){0};
}

void stale_keep(const struct net *net, unsigned peer, const struct frame *f)
{
	struct net_stale *s = &net_world.stale;
	if (!s->per_thousand || f->type >= PEER_ORDER_END)
		return;
	struct stale_message *k = &s->kept[s->n++ % NET_SIM_STALE];
	free(k->body);
	*k = (struct stale_message){
		.from = peer, .to = net->self, .type = f->type, .len = f->len, .body = malloc(f->len ? f->len : 1)};
	SIM_CHECK(k->body, "memory");
	memcpy(k->body, f->body, f->len);
}

/* NULL: none was found. */
static struct stale_message *some(struct net_stale *s, unsigned from, unsigned to)
{
	for (unsigned i = 0; s->n && i < TRIES; i++) {
		struct stale_message *k = &s->kept[rng_below(world_rng(), min_u64(s->n, NET_SIM_STALE))];
		if (k->from == from && k->to == to)
			return k;
	}
	return NULL;
}

/* Where a report says in which epoch its node is. 0: it is none. */
static size_t epoch_at(uint16_t type, const uint8_t *body, size_t len)
{
	uint64_t term;
	const void *at = body;
	size_t left = len;
	if (type >= PEER_REPORT_END || !peer_term_take(&at, &left, &term) || left < 2)
		return 0;
	const uint8_t *name = at;
	size_t epoch = len - left + 2 + (name[0] | (size_t)name[1] << 8);
	return epoch + 4 <= len ? epoch : 0;
}

void stale_hear(struct net *net, unsigned peer, const struct frame *now)
{
	struct net_stale *s = &net_world.stale;
	struct stale_message *k = chance(s->per_thousand) ? some(s, peer, net->self) : NULL;
	if (!k)
		return;
	size_t to = epoch_at(k->type, k->body, k->len), from = epoch_at(now->type, now->body, now->len);
	if (to && from && rng_chance(world_rng(), 50)) /* else most reports are of another epoch, and not looked at */
		memcpy(k->body + to, now->body + from, 4);
	net_world.counts.stale++;
	net->events.message(net->events.arg, peer, k->type, k->body, k->len);
}

void net_sim_stale(unsigned per_thousand)
{
	net_world.stale.per_thousand = per_thousand;
}
