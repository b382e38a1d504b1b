#include "net_private.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "rng.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

void part_free(struct part *part)
{
	list_remove(&part->link);
	free(part->data);
	free(part);
}

static void abandon(struct part *part)
{
	bool lands = !part->back && part->kind == NET_WRITE && part->op && rng_chance(world_rng(), 50);
	if (!lands) {
		part_free(part);
		return;
	}
	part->data = malloc(part->len);
	SIM_CHECK(part->data, "memory");
	memcpy(part->data, (const uint8_t *)part->op->buf + part->at, part->len);
	part->op = NULL;
}

void abandon_parts(struct session *s, unsigned from)
{
	list_for_safe(node, &s->parts) {
		struct part *part = list_entry(node, struct part, link);
		if (part->from == from)
			abandon(part);
		else
			part_free(part); /* nothing lands here any more; the other side will hear of the end */
	}
}

void cut_target(struct session *s)
{
	list_for_safe(node, &s->parts)
		abandon(list_entry(node, struct part, link));
	s->side[0].target_cut = s->side[1].target_cut = true;
}

void disturb_copies(struct session *s, uint64_t key)
{
	list_for(node, &s->parts) {
		const struct part *part = list_entry(node, struct part, link);
		if (part->key != key || part->back)
			continue;
		if (rng_chance(world_rng(), 30))
			cut_target(s);
		return;
	}
}

enum { PARTS_MAX = 16 }; /* of a copy in flight: more than NET_DEPTH, they end in more orders */

static void issue(struct session *s, unsigned from, struct net_op *op)
{
	while (op->in_flight < PARTS_MAX && op->issued < op->len && op->result >= 0) {
		struct part *part = calloc(1, sizeof(*part));
		SIM_CHECK(part, "memory");
		uint64_t left = op->len - op->issued;
		uint64_t n = min_u64(left, 1 + rng_below(world_rng(), op->len / 2 + 1));
		*part = (struct part){
			.op = op,
			.from = from,
			.kind = op->kind,
			.key = op->ticket.key,
			.offset = op->offset + op->issued,
			.at = op->issued,
			.len = min_u64(n, NET_CHUNK),
			.due = arrival(s->side[from].node, s->side[!from].node, op->kind == NET_WRITE ? n : 0)};
		list_push(&s->parts, &part->link);
		op->issued += part->len;
		op->in_flight++;
		net_world.counts.parts++;
		if (chance(net_world.faults.drop)) {
			s->side[rng_below(world_rng(), 2)].end = -ECONNRESET;
			net_world.counts.lost++;
		}
	}
}

void net_submit(struct net *net, struct net_op *op)
{
	struct session *s = *pair(net->self, op->node);
	struct side *me = side_of(s, net->self);
	op->issued = op->moved = 0;
	op->in_flight = 0;
	op->result = 0;
	list_init(&op->link);
	if (net->dead || !me || me->state != SIDE_UP || !op->len) {
		op->result = op->len ? -ENOTCONN : 0;
		list_push(&net->ready, &op->link);
		return;
	}
	list_push(&me->ops, &op->link);
	park_want(net, s);
	issue(s, (unsigned)(me - s->side), op);
}

static struct net_region *find_region(struct net *net, const struct part *part, const struct side *me, unsigned from)
{
	enum net_access need = part->kind == NET_WRITE ? NET_WRITABLE : NET_READABLE;
	list_for(node, &net->regions) {
		struct net_region *r = list_entry(node, struct net_region, link);
		if (r->key == part->key && r->node == from && r->session == me->number && (r->access & need) &&
		    part->offset <= r->size && part->len <= r->size - part->offset)
			return r;
	}
	return NULL;
}

static void land(struct net *net, struct session *s, struct part *part)
{
	struct side *me = side_of(s, net->self), *you = other_of(s, net->self);
	struct net_region *region = find_region(net, part, me, you->node);
	if (!region) {
		part->rc = -EACCES;
		net_world.counts.refused++;
	} else if (part->kind == NET_WRITE) {
		const uint8_t *from = part->data ? part->data : (const uint8_t *)part->op->buf + part->at;
		memcpy(region->base + part->offset, from, part->len);
		net->counts.bytes_written += part->len;
		net_world.counts.late += !part->op;
	} else {
		part->data = malloc(part->len);
		SIM_CHECK(part->data, "memory");
		memcpy(part->data, region->base + part->offset, part->len);
		net->counts.bytes_read += part->len;
	}
	if (!part->op) {
		part_free(part);
		return;
	}
	part->back = true;
	part->due = arrival(net->self, you->node, part->kind == NET_READ ? part->len : 0);
}

/* True: a copy is done. */
static bool come_home(struct session *s, struct part *part)
{
	struct net_op *op = part->op;
	unsigned from = part->from;
	if (part->rc)
		op->result = part->rc;
	else if (part->kind == NET_READ)
		memcpy((uint8_t *)op->buf + part->at, part->data, part->len);
	op->moved += part->len;
	op->in_flight--;
	part_free(part);
	issue(s, from, op);
	if (op->in_flight || (op->result >= 0 && op->moved < op->len))
		return false;
	if (op->result >= 0)
		op->result = (int64_t)op->len;
	list_remove(&op->link);
	op->done(op);
	return true;
}

bool next_part(struct net *net, struct session *s)
{
	struct side *me = side_of(s, net->self);
	unsigned mine = (unsigned)(me - s->side), peer = other_of(s, net->self)->node;
	list_for_safe(node, &s->parts) {
		struct part *part = list_entry(node, struct part, link);
		bool to_me = part->back == (part->from == mine);
		if (!to_me || part->due > clock_now() || net_world.cut[peer][net->self])
			continue;
		if (!part->back)
			land(net, s, part);
		else if (come_home(s, part))
			return true;
	}
	return false;
}
