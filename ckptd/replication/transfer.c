#include "replication/transfer.h"

#include "base/bytes.h"
#include "base/clock.h"

static void ask(struct transfer *h);

static bool left(struct transfer *h)
{
	while (h->part < TRANSFER_PARTS && h->at == h->parts[h->part].len) {
		h->part++;
		h->at = 0;
	}
	return h->part < TRANSFER_PARTS;
}

/* What failed because the way was cut, and not because the other side closed its memory. */
static bool may_try_again(struct transfer *h, int64_t rc)
{
	return !h->rc && (rc == -ECONNRESET || rc == -ETIMEDOUT) && h->session == net_session(h->net, h->node) &&
	       h->retries++ < TRANSFER_RETRIES;
}

static void submit(struct transfer *h, struct net_op *op)
{
	op->deadline = clock_now() + h->patience_ns;
	net_submit(h->net, op);
}

static void piece_done(struct net_op *op)
{
	struct transfer_op *piece = op->arg;
	struct transfer *h = piece->transfer;
	if (op->result < 0 && may_try_again(h, op->result)) {
		submit(h, op);
		return;
	}
	piece->busy = false;
	h->in_flight--;
	if (op->result < 0)
		transfer_stop(h, (int)op->result);
	else
		h->moved += op->len;
	if (!h->rc && h->advanced)
		h->advanced(h);
	ask(h);
	if (!h->in_flight && !h->asking)
		h->done(h);
}

static void go(struct turn *turn)
{
	struct transfer *h = list_entry(turn, struct transfer, turn);
	struct transfer_op *piece = h->ops;
	while (piece->busy)
		piece++;
	*piece = (struct transfer_op){.transfer = h, .part = h->part, .busy = true};
	piece->op = (struct net_op){.kind = h->kind,
				    .node = h->node,
				    .buf = (uint8_t *)h->parts[h->part].buf + h->at,
				    .len = turn->bytes,
				    .ticket = h->parts[h->part].ticket,
				    .offset = h->at,
				    .done = piece_done,
				    .arg = piece};
	h->at += turn->bytes;
	h->in_flight++;
	h->asking = false;
	submit(h, &piece->op);
	ask(h);
}

static void ask(struct transfer *h)
{
	if (h->rc || h->asking || h->in_flight == TRANSFER_DEPTH || !left(h))
		return;
	h->asking = true;
	h->turn = (struct turn){
		.job = h->bucket, .bytes = min_u64(h->parts[h->part].len - h->at, TRANSFER_PIECE), .go = go};
	list_init(&h->turn.link);
	if (h->throttle)
		throttle_ask(h->throttle, &h->turn);
	else
		go(&h->turn);
}

bool transfer_start(struct transfer *h)
{
	h->session = net_session(h->net, h->node);
	list_init(&h->turn.link);
	if (!left(h))
		return false;
	ask(h);
	return true;
}

bool transfer_stop(struct transfer *h, int rc)
{
	if (!h->rc)
		h->rc = rc;
	if (h->asking)
		list_remove(&h->turn.link);
	h->asking = false;
	return !h->in_flight;
}

uint64_t transfer_front(const struct transfer *h, unsigned part)
{
	uint64_t front = h->part < part ? 0 : h->part > part ? h->parts[part].len : h->at;
	for (unsigned i = 0; i < TRANSFER_DEPTH; i++)
		if (h->ops[i].busy && h->ops[i].part == part)
			front = min_u64(front, h->ops[i].op.offset);
	return front;
}
