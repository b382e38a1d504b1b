/* The way of rails: parts are one-sided operations of libfabric. What was given away is known to be out of reach when the other side has
 * said so, or its connections are closed: see net_withdraw(). */
#include "cluster/net/engine.h"
#include "cluster/net/fabric.h"

#include <rdma/fi_errno.h>

static int open_rail(struct net *net, const char *provider, struct err *err)
{
	if (!rail_is_prepared())
		return err_set(err, -EINVAL, "the environment lacks what libfabric is to be told: net_environment()");
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
	return p->address.len && !rail_insert(&p->net->copies, p->address.bytes, &p->copies.peer);
}

static bool ready(struct peer *p)
{
	(void)p;
	return true;
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
	struct fi_msg_rma message = {.msg_iov = &local,
				     .desc = &descriptor,
				     .iov_count = 1,
				     .addr = p->copies.peer,
				     .rma_iov = &remote,
				     .rma_iov_count = 1,
				     .context = part};
	ssize_t sent = op->kind == NET_READ
			       ? fi_readmsg(net->copies.ep, &message, FI_COMPLETION)
			       : fi_writemsg(net->copies.ep, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE);
	rail_posted(&p->copies, sent);
	if (sent && part->mr)
		fi_close(&part->mr->fid);
	return sent == -FI_EAGAIN ? -EAGAIN : sent ? -ECONNRESET : 0;
}

static bool cut(struct peer *p)
{
	rail_remove(&p->net->copies, &p->copies, p->nparts > 0);
	return true;
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
			     .cut = cut,
			     .expose = expose,
			     .close = close_region};
