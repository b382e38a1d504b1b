/* The way of rails: parts are one-sided operations of libfabric. What was given away is known to be out of reach when the other side has
 * said so, or its endpoint is closed: see net_withdraw(). */
#include "cluster/net/engine.h"
#include "cluster/net/fabric.h"

#include "base/clock.h"

#include <rdma/fi_errno.h>

enum { DONE_BATCH = 32, NEWS_BATCH = 32 };

static int open_rail(struct net *net, const char *provider, struct err *err)
{
	union address copies = net->peers[net->self_index].where;
	copies.v4.sin_port = 0; /* where it is in both families */
	int rc = rail_open(&net->copies, provider, &copies.any, err);
	if (!rc && (rc = rail_address(&net->copies, &net->self.copies)))
		err_set(err, rc, "the endpoint of copies has no address: %s", err_name(rc));
	return rc;
}

static void end(struct net *net)
{
	rail_close(&net->copies);
}

static bool reach(struct peer *p)
{
	p->rails.call_at = 0;
	p->rails.backoff_ms = BACKOFF_MIN_MS;
	return p->address.len;
}

static bool ready(struct peer *p)
{
	if (!p->rails.mine && clock_now() >= p->rails.call_at)
		rail_call_node(p);
	return p->rails.ready;
}

static void tick(struct peer *p, uint64_t now)
{
	uint64_t patience = max_u64(p->net->timeout, CALL_MS * CLOCK_NS_PER_MS);
	if (p->rails.mine && !p->rails.ready && now - p->rails.since >= patience)
		rail_fail_call(p, -ETIMEDOUT);
	if (!p->rails.mine && !list_empty(&p->ops))
		net_busy(p);
}

static int post(struct peer *p, struct part *part)
{
	struct net_op *op = part->op;
	struct net *net = p->net;
	void *descriptor = NULL;
	struct iovec local = {(uint8_t *)op->buf + part->begin, part->len};
	struct fi_rma_iov remote = {op->ticket.address + op->offset + part->begin, part->len, op->ticket.key};
	int rc = region_local(net, local.iov_base, part->len, &descriptor, &part->mr);
	if (rc)
		return rc;
	part->number = ++net->parts * net->roster->max + p->node;
	struct fi_msg_rma message = {.msg_iov = &local,
				     .desc = &descriptor,
				     .iov_count = 1,
				     .rma_iov = &remote,
				     .rma_iov_count = 1,
				     .context = (void *)(uintptr_t)part->number};
	ssize_t sent = op->kind == NET_READ
			       ? fi_readmsg(p->rails.mine, &message, FI_COMPLETION)
			       : fi_writemsg(p->rails.mine, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE);
	if (sent && part->mr)
		fi_close(&part->mr->fid);
	return sent == -FI_EAGAIN ? -EAGAIN : sent ? -ECONNRESET : 0;
}

/* An endpoint that was closed may still tell of its parts: then there is none of that number. */
static struct part *find_part(struct net *net, uint64_t number)
{
	struct peer *p = &net->peers[number % net->roster->max];
	list_for(node, &p->parts) {
		struct part *part = list_entry(node, struct part, link);
		if (part->number == number)
			return part;
	}
	return NULL;
}

/* After a part that failed a connection is of no more use. */
static bool read_done(struct net *net)
{
	struct rail_done done[DONE_BATCH];
	int n = rail_read(&net->copies, done, DONE_BATCH);
	for (int i = 0; i < n; i++) {
		struct part *part = find_part(net, (uintptr_t)done[i].context);
		if (part && done[i].rc)
			copy_cut(part->peer, -ECONNRESET);
		else if (part)
			copy_done(part, 0);
	}
	return n > 0;
}

bool rail_look(struct net *net)
{
	struct rail_event event;
	bool did = read_done(net);
	bool look = net->look;
	net->look = false;
	for (unsigned n = 0; look && rail_event(&net->copies, &event); n++) {
		rail_news_of(net, &event);
		did = true;
		if (n == NEWS_BATCH) {
			net->look = true;
			break;
		}
	}
	return did;
}

static void cut(struct peer *p)
{
	rail_part(p);
}

static void leave(struct peer *p)
{
	p->rails.attempts = p->rails.heard = 0;
}

static int expose(struct net_region *region, void *base, uint64_t size, enum net_access access)
{
	struct rail *rail = &region->net->copies;
	uint64_t rights = (access & NET_READABLE ? FI_REMOTE_READ : 0) | (access & NET_WRITABLE ? FI_REMOTE_WRITE : 0);
	int rc = rail_expose(rail, base, size, rights, &region->mr);
	if (rc)
		return rc < -FI_ERRNO_OFFSET ? -EIO : rc;
	region->ticket.key = fi_mr_key(region->mr);
	region->ticket.address = rail_remote_base(rail, base);
	return 0;
}

static void close_region(struct net_region *region)
{
	fi_close(&region->mr->fid);
	region->mr = NULL;
}

const struct way rail_way = {.open = open_rail,
			     .end = end,
			     .reach = reach,
			     .ready = ready,
			     .post = post,
			     .tick = tick,
			     .cut = cut,
			     .leave = leave,
			     .expose = expose,
			     .close = close_region};
