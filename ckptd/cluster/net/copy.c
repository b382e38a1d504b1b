/* Copies out, in parts: each of a node's copies in turn, at most NET_DEPTH parts in flight to a node. */
#include "cluster/net/engine.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

/* The loop is told; op is the caller's again when it has heard. */
void copy_end_op(struct peer *p, struct net_op *op, int64_t result)
{
	struct net *net = p->net;
	LOCK_SCOPE(&net->lock);
	op->result = result;
	if (result > 0)
		*(op->kind == NET_READ ? &net->counts.bytes_read : &net->counts.bytes_written) += (uint64_t)result;
	list_push(&p->ended, &op->link);
	net_tell(p);
}

static void end_if_over(struct peer *p, struct net_op *op)
{
	if (op->in_flight || (!op->result && op->issued < op->len))
		return;
	list_remove(&op->link);
	copy_end_op(p, op, op->result ? op->result : (int64_t)op->len);
}

/* No further part of it is issued; it ends when those in flight have. */
static void fail_op(struct peer *p, struct net_op *op, int rc)
{
	if (!op->result)
		op->result = rc;
	list_remove(&op->link);
	list_push(&p->flying, &op->link);
	end_if_over(p, op);
}

static bool is_revoked(const struct peer *p, uint64_t key)
{
	unsigned n = p->nrevoked < REVOKED_MAX ? p->nrevoked : REVOKED_MAX;
	for (unsigned i = 0; i < n; i++)
		if (p->revoked[i] == key)
			return true;
	return false;
}

/* The next part of a copy. -EAGAIN: later. */
static int push_part(struct peer *p, struct net_op *op)
{
	struct part *part = malloc(sizeof(*part));
	if (!part)
		return -ENOMEM;
	*part = (struct part){
		.peer = p, .op = op, .begin = op->issued, .len = min_u64(NET_CHUNK, op->len - op->issued)};
	int rc = p->net->way->post(p, part);
	if (rc) {
		free(part);
		return rc;
	}
	op->issued += part->len;
	op->in_flight++;
	p->nparts++;
	list_push(&p->parts, &part->link);
	list_remove(&op->link);
	list_push(op->issued < op->len ? &p->ops : &p->flying, &op->link);
	return 0;
}

/* What keeps a copy from being begun, or from going on. */
static int hindrance(const struct peer *p, const struct net_op *op)
{
	if (op->session != p->id || !p->reachable)
		return -ENOTCONN;
	return is_revoked(p, op->ticket.key) ? -EACCES : 0;
}

bool copy_push(struct peer *p)
{
	if (park_is(p))
		return false; /* it is called; then they are pushed again */
	while (!list_empty(&p->ops) && p->nparts < NET_DEPTH) {
		struct net_op *op = list_entry(p->ops.next, struct net_op, link);
		int rc = hindrance(p, op);
		if (!rc && op->len && !p->net->way->ready(p))
			return false;
		if (!rc && op->len)
			rc = push_part(p, op);
		if (rc == -EAGAIN)
			return true;
		if (rc || !op->len)
			fail_op(p, op, rc); /* an empty one is done */
	}
	return false;
}

/* What the other side waits for: nothing of ours is on its way to a region that it withdraws. */
static bool in_flight_to(const struct peer *p, uint64_t key)
{
	list_for(node, &p->parts) {
		const struct part *part = list_entry(node, struct part, link);
		if (part->op->ticket.key == key)
			return true;
	}
	return false;
}

static void pay_debts(struct peer *p)
{
	for (unsigned i = 0; i < p->nowed;) {
		if (in_flight_to(p, p->owed[i])) {
			i++;
			continue;
		}
		post_small(p, FRAME_REVOKED, p->owed[i]);
		p->owed[i] = p->owed[--p->nowed];
	}
}

static void fail_revoked(struct peer *p, struct list *ops, uint64_t key)
{
	list_for_safe(node, ops) {
		struct net_op *op = list_entry(node, struct net_op, link);
		if (op->ticket.key == key)
			fail_op(p, op, -EACCES);
	}
}

void copy_revoke(struct peer *p, uint64_t key)
{
	p->revoked[p->nrevoked++ % REVOKED_MAX] = key;
	if (p->nowed == REVOKED_MAX) {
		peer_end(p, -EPROTO);
		return;
	}
	p->owed[p->nowed++] = key;
	fail_revoked(p, &p->ops, key);
	pay_debts(p);
}

/* What it copied from or into is not touched any more. */
static void end_part(struct part *part)
{
	list_remove(&part->link);
	part->peer->nparts--;
	part->op->in_flight--;
	if (part->mr)
		fi_close(&part->mr->fid);
	free(part);
}

void copy_done(struct part *part, int rc)
{
	struct peer *p = part->peer;
	struct net_op *op = part->op;
	op->moved += part->len;
	end_part(part);
	if (rc)
		fail_op(p, op, rc);
	else
		end_if_over(p, op);
	pay_debts(p);
	net_busy(p);
}

static void fail_all(struct peer *p, struct list *ops, int rc)
{
	list_for_safe(node, ops)
		fail_op(p, list_entry(node, struct net_op, link), rc);
}

static void cut_target(struct peer *p)
{
	if (p->reachable)
		p->net->way->cut(p);
	p->reachable = false;
	list_for_safe(node, &p->parts)
		end_part(list_entry(node, struct part, link));
}

/* Those with parts in flight, wherever they stand. */
static void fail_begun(struct peer *p, int rc)
{
	list_for_safe(node, &p->ops) {
		struct net_op *op = list_entry(node, struct net_op, link);
		if (op->issued)
			fail_op(p, op, rc);
	}
	fail_all(p, &p->flying, rc);
}

void copy_cut(struct peer *p, int rc)
{
	cut_target(p);
	fail_begun(p, rc);
	pay_debts(p);
	p->reachable = p->net->way->reach(p);
	region_released_all(p);
	net_busy(p);
}

void copy_clear(struct peer *p, int rc)
{
	cut_target(p);
	fail_all(p, &p->ops, rc);
	fail_all(p, &p->flying, rc);
	p->nrevoked = p->nowed = 0;
	if (p->net->way->leave)
		p->net->way->leave(p);
}

static bool is_late(struct net_op *op, uint64_t now)
{
	return op->deadline && now >= op->deadline;
}

void copy_tick(struct peer *p, uint64_t now)
{
	bool cut = false;
	if (p->net->way->tick)
		p->net->way->tick(p, now);
	list_for_safe(node, &p->ops) {
		struct net_op *op = list_entry(node, struct net_op, link);
		cut |= is_late(op, now) && op->in_flight;
		if (is_late(op, now))
			fail_op(p, op, -ETIMEDOUT);
	}
	list_for(node, &p->flying) {
		struct net_op *op = list_entry(node, struct net_op, link);
		if (!is_late(op, now))
			continue;
		cut = true;
		op->result = op->result ? op->result : -ETIMEDOUT;
	}
	if (cut)
		copy_cut(p, -ECONNRESET);
}
