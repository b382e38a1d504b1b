#include "net_private.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "cluster/net_body.h"
#include "cluster/roster.h"
#include "rng.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { POLL_MAX = NET_SIM_NODES / 8 };

static void finish_ops(struct list *ops, int rc)
{
	for (struct list *node; (node = list_pop(ops));) {
		struct net_op *op = list_entry(node, struct net_op, link);
		op->result = rc;
		op->done(op);
	}
}

static void end_session(struct net *net, struct session *s, int rc)
{
	struct list ops;
	unsigned peer = other_of(s, net->self)->node;
	bool connected = !s->parked;
	net->heard_last[peer] = side_of(s, net->self)->heard_ns;
	leave(net, s, &ops, true, rc == -ESHUTDOWN ? -ESHUTDOWN : -ECONNRESET);
	finish_ops(&ops, rc);
	if (connected)
		attend_lost(net, peer);
	net->events.down(net->events.arg, peer, rc);
}

static bool next_frame(struct net *net, struct session *s)
{
	struct side *me = side_of(s, net->self);
	unsigned peer = other_of(s, net->self)->node;
	while (!list_empty(&me->frames) && !net_world.cut[peer][net->self]) {
		struct frame *f = list_entry(me->frames.next, struct frame, link);
		if (f->due > clock_now())
			return false;
		list_remove(&f->link);
		me->nframes -= !f->kind;
		me->nbytes -= f->len;
		attend_heard(net, s, f);
		bool beat = f->kind;
		int end = f->end;
		if (!beat && !end) {
			net->counts.messages_in++;
			net->events.message(net->events.arg, peer, f->type, f->body, f->len);
			stale_hear(net, peer, f);
			stale_keep(net, peer, f);
		}
		free(f);
		if (end)
			end_session(net, s, end);
		if (!beat)
			return true;
	}
	return false;
}

/* A copy cannot be called back: the others that are on the same way go with the one that takes too long. */
static bool fail_copies(struct session *s, struct side *me)
{
	struct list late, cut;
	list_init(&late);
	list_init(&cut);
	list_for_safe(node, &me->ops) {
		if (list_entry(node, struct net_op, link)->deadline >= clock_now())
			continue;
		list_remove(node);
		list_push(&late, node);
	}
	if (!list_empty(&late))
		cut_target(s);
	if (!me->target_cut)
		return false;
	me->target_cut = false;
	for (struct list *node; (node = list_pop(&me->ops));)
		list_push(&cut, node);
	finish_ops(&late, -ETIMEDOUT);
	finish_ops(&cut, -ECONNRESET);
	return true;
}

static bool parked_event(struct net *net, struct session *s)
{
	if (park_resumed(net, s))
		return true;
	if (!park_is_lost(net, s))
		return false;
	end_session(net, s, -ETIMEDOUT);
	return true;
}

static bool side_event(struct net *net, unsigned peer)
{
	struct session *s = *pair(net->self, peer);
	struct side *me = side_of(s, net->self);
	if (!me || me->state == SIDE_GONE)
		return false;
	if (me->state == SIDE_COMING) {
		if (me->due > clock_now() || net_world.cut[peer][net->self])
			return false;
		me->state = SIDE_UP;
		net->up[peer] = true;
		net->changes++;
		net->rumours[peer] = (struct rumours){.lost_at = 0};
		attend_begin(net, me);
		attend_tell_all(net, s);
		net->counts.sessions++;
		net->events.up(net->events.arg, peer);
		return true;
	}
	if (me->end) {
		end_session(net, s, me->end);
		return true;
	}
	if (fail_copies(s, me))
		return true;
	if (s->parked)
		return parked_event(net, s);
	if (rng_chance(world_rng(), 50) ? next_part(net, s) || next_frame(net, s)
					: next_frame(net, s) || next_part(net, s))
		return true;
	if (!attend_look(net, s)) {
		park_look(net, s);
		return false;
	}
	end_session(net, s, -ETIMEDOUT);
	return true;
}

static bool event_among(struct net *net, unsigned from, unsigned to)
{
	for (unsigned peer = park_next_awake(net, from); peer < to; peer = park_next_awake(net, peer + 1))
		if (peer != net->self && side_event(net, peer))
			return true;
	return false;
}

static bool one_event(struct net *net)
{
	struct list *node = list_pop(&net->ready);
	if (node) {
		struct net_op *op = list_entry(node, struct net_op, link);
		op->done(op);
		return true;
	}
	unsigned first = (unsigned)rng_below(world_rng(), NET_SIM_NODES); /* most are not there */
	first = first < net_world.n ? first : 0;
	attend_wake_neighbours(net);
	return event_among(net, first, net_world.n) || event_among(net, 0, first);
}

int net_poll(struct net *net)
{
	int n = 0;
	SIM_CHECK(!net->dead, "node %u is dead and polls", net->self);
	attend_polled(net);
	for (unsigned peer = park_next_awake(net, 0); peer < net_world.n; peer = park_next_awake(net, peer + 1))
		if (peer != net->self)
			connect_to(net, peer);
	while (n < POLL_MAX && one_event(net))
		n++;
	return n;
}

/* ---- the rest of cluster/net.h --------------------------------------------------------------------------------------------- */

static void learn(struct net *net, unsigned node)
{
	net->known[node] = !net->roster || roster_has(net->roster, node);
	net->expected[node] = net->roster && net->known[node] ? net->roster->nodes[node].incarnation : 0;
}

int net_member(struct net *net, unsigned node, struct err *err)
{
	(void)err;
	struct side *me = net->dead ? NULL : side_of(*pair(net->self, node), net->self);
	const struct net *other = net_world.nets[node];
	learn(net, node);
	bool another =
		!net->known[node] || (net->expected[node] && (!other || net->expected[node] != other->incarnation));
	if (another && me && me->state == SIDE_UP && !me->end)
		me->end = -ECONNRESET;
	park_wake(*pair(net->self, node));
	return 0;
}

int net_new(const struct net_config *config, const struct net_events *events, struct net **out, struct err *err)
{
	(void)err;
	SIM_CHECK(config->self < NET_SIM_NODES && !net_world.nets[config->self], "node %u", config->self);
	struct net *net = calloc(1, sizeof(*net));
	SIM_CHECK(net, "memory");
	net->self = config->self;
	net->changes = 1;
	net->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	net_world.n = net->self < net_world.n ? net_world.n : net->self + 1;
	net->timeout_ns = config->peer_timeout_ns;
	net->incarnation = config->incarnation;
	memset(net->awake, 0xff, sizeof(net->awake));
	net->roster = config->roster;
	for (unsigned i = 0; i < NET_SIM_NODES; i++)
		learn(net, i);
	net->events = *events;
	list_init(&net->regions);
	list_init(&net->ready);
	net_world.nets[net->self] = net;
	*out = net;
	return 0;
}

static void leave_all(struct net *net, bool told)
{
	for (unsigned peer = 0; peer < net_world.n; peer++) {
		struct list ops;
		struct session *s = peer == net->self ? NULL : *pair(net->self, peer);
		if (!s || side_of(s, net->self)->state == SIDE_GONE)
			continue;
		leave(net, s, &ops, told, -ESHUTDOWN);
		for (struct list *node; (node = list_pop(&ops));)
			list_push(&net->ready, node);
	}
}

void net_free(struct net *net)
{
	if (!net)
		return;
	leave_all(net, true);
	net->dead = true;
	finish_ops(&net->ready, -ESHUTDOWN);
	list_for_safe(node, &net->regions) {
		list_entry(node, struct net_region, link)->net = NULL;
		list_remove(node);
	}
	net_world.nets[net->self] = NULL;
	if (net->fd >= 0)
		close(net->fd);
	free(net);
}

int net_event_fd(struct net *net)
{
	return net->fd;
}

int net_renew(struct net *net, const struct net_credentials *files, struct err *err)
{
	(void)net, (void)files, (void)err;
	return 0;
}

bool net_is_up(const struct net *net, unsigned node)
{
	struct side *me = side_of(*pair(net->self, node), net->self);
	return node != net->self && me && me->state == SIDE_UP;
}

bool net_is_open(const struct net *net, unsigned node)
{
	return net_is_up(net, node) && !(*pair(net->self, node))->parked;
}

unsigned net_silent(const struct net *net)
{
	unsigned n = 0;
	for (unsigned node = 0; node < net_world.n; node++)
		n += net_is_open(net, node) && liveness_silent(&side_of(*pair(net->self, node), net->self)->liveness);
	return n;
}

void net_touch(struct net *net, unsigned node)
{
	if (net_is_up(net, node))
		park_want(net, *pair(net->self, node));
}

uint64_t net_heard(const struct net *net, unsigned node)
{
	return net->heard_last[node];
}

uint64_t net_session(const struct net *net, unsigned node)
{
	return net_is_up(net, node) ? side_of(*pair(net->self, node), net->self)->number : 0;
}

static bool is_silent(struct net *net, uint16_t type)
{
	if (net->last_words.type == type && !net->last_words.over)
		net->last_words.over = !net->last_words.left--;
	return net->last_words.over;
}

static int give(struct net *net, unsigned node, uint16_t type, const uint8_t *data, size_t len, size_t own)
{
	if (net->dead || !net_is_up(net, node))
		return -ENOTCONN;
	struct session *s = *pair(net->self, node);
	struct side *you = other_of(s, net->self);
	if (side_of(s, net->self)->dropped)
		return -ENOTCONN;
	park_want(net, s);
	if (you->state == SIDE_GONE)
		return 0; /* nobody knows yet that it goes nowhere */
	if (is_silent(net, type))
		return 0;
	if (you->nframes >= NET_QUEUE_MAX || you->nbytes + own > NET_QUEUE_BYTES || chance(net_world.faults.refuse))
		return -ENOBUFS;
	struct frame head = {.type = type, .len = len};
	if (chance(net_world.faults.drop)) {
		head = (struct frame){.end = -ECONNRESET};
		net_world.counts.lost++;
	}
	push_frame(s, net->self, &head, data);
	attend_use(side_of(s, net->self));
	net->counts.messages_out++;
	net_world.counts.messages++;
	return 0;
}

int net_send(struct net *net, unsigned node, uint16_t type, const struct wbuf *body)
{
	SIM_CHECK(!body->failed, "a message that could not be encoded");
	return body->len > NET_MESSAGE_MAX ? -EMSGSIZE : give(net, node, type, body->data, body->len, body->len);
}

int net_send_body(struct net *net, unsigned node, uint16_t type, struct net_body *body)
{
	return body->len > NET_BODY_MAX ? -EMSGSIZE : give(net, node, type, body->bytes, body->len, 0);
}

void net_drop(struct net *net, unsigned node, int rc)
{
	struct side *me = net->dead ? NULL : side_of(*pair(net->self, node), net->self);
	if (!me || me->state != SIDE_UP)
		return;
	net_world.counts.strange += rc == -EPROTO;
	me->dropped = true;
	if (!me->end)
		me->end = rc;
	park_wake(*pair(net->self, node));
}

int net_expose(struct net *net, unsigned node, void *base, uint64_t size, enum net_access access,
	       struct net_region **out, struct err *err)
{
	if (net->dead || !net_is_up(net, node))
		return err_set(err, -ENOTCONN, "node %u is not connected", node);
	struct net_region *r = calloc(1, sizeof(*r));
	SIM_CHECK(r, "memory");
	*r = (struct net_region){.net = net,
				 .node = node,
				 .session = net_session(net, node),
				 .key = rng_next(world_rng()),
				 .base = base,
				 .size = size,
				 .access = access};
	list_push(&net->regions, &r->link);
	*out = r;
	return 0;
}

struct net_ticket net_region_ticket(const struct net_region *region)
{
	return (struct net_ticket){.key = region->key, .size = region->size};
}

void net_withdraw(struct net_region *region)
{
	if (region && region->net) {
		list_remove(&region->link);
		disturb_copies(*pair(region->net->self, region->node), region->key);
	}
	free(region);
}

int net_register(struct net *net, void *base, uint64_t size)
{
	(void)net;
	(void)base;
	(void)size;
	return 0;
}

void net_unregister(struct net *net, int token)
{
	(void)net;
	(void)token;
}

void net_ask_clocks(struct net *net)
{
	(void)net; /* all have the same clock, and answer in no time */
}

struct net_counts net_counts(const struct net *net)
{
	return net->counts;
}

/* ---- for tests ----------------------------------------------------------------------------------------------------- */

void net_sim_reset(void)
{
	for (unsigned a = 0; a < net_world.n; a++) {
		SIM_CHECK(!net_world.nets[a], "node %u was not freed", a);
		for (unsigned b = a + 1; b < net_world.n; b++)
			if (net_world.pairs[a][b])
				session_free(net_world.pairs[a][b]);
	}
	stale_forget();
	memset(&net_world, 0, sizeof(net_world));
}

void net_sim_faults(const struct net_faults *faults)
{
	net_world.faults = *faults;
}

void net_sim_park(uint64_t idle_ns, bool alone)
{
	net_world.park_ns = idle_ns;
	net_world.alone = alone;
}

const struct net_sim_counts *net_sim_counts(void)
{
	return &net_world.counts;
}

void net_sim_cut(unsigned from, unsigned to, bool cut)
{
	net_world.cut[from][to] = cut;
	park_wake(*pair(from, to));
}

void net_sim_slow(unsigned from, unsigned to, uint64_t bytes_per_s)
{
	net_world.rate[from][to] = bytes_per_s;
}

/* Its kernel may tell the others, or be gone with it. */
void net_sim_kill(unsigned node)
{
	struct net *net = net_world.nets[node];
	SIM_CHECK(net && !net->dead, "node %u is not alive", node);
	leave_all(net, rng_chance(world_rng(), 50));
	net->dead = true;
}

void net_sim_last_words(unsigned node, uint16_t type, unsigned n)
{
	net_world.nets[node]->last_words.type = type;
	net_world.nets[node]->last_words.left = n;
}

bool net_sim_is_silent(unsigned node)
{
	return net_world.nets[node] && net_world.nets[node]->last_words.over;
}

bool net_sim_writable(const void *base, uint64_t size)
{
	const uint8_t *p = base;
	for (unsigned a = 0; a < NET_SIM_NODES; a++) {
		if (!net_world.nets[a])
			continue;
		list_for(node, &net_world.nets[a]->regions) {
			struct net_region *r = list_entry(node, struct net_region, link);
			if ((r->access & NET_WRITABLE) && p < r->base + r->size && r->base < p + size)
				return true;
		}
	}
	return false;
}

unsigned net_sim_regions(unsigned node)
{
	unsigned n = 0;
	if (net_world.nets[node])
		list_for(it, &net_world.nets[node]->regions)
			n++;
	return n;
}
