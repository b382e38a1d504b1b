/* The asking end of a lane: requests and the bytes of writes out, answers in. Parts stand in p->parts in the order in which they were
 * posted, and are answered in. */
#include "cluster/net/engine.h"

#include "base/clock.h"
#include "base/log.h"

#include <openssl/rand.h>
#include <string.h>

enum { TURN_BYTES = 1 << 20 }; /* in each direction */

static void hang_up(struct peer *p)
{
	net_bury(p->net, p->asking.link);
	p->asking.link = NULL;
	p->asking.ready = false;
	p->asking.have = p->asking.left = 0;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bool reach(struct peer *p)
{
	p->asking.call_at = 0;
	p->asking.backoff_ms = BACKOFF_MIN_MS;
	return true;
}

static void fail_call(struct peer *p, int rc)
{
	struct asking *a = &p->asking;
	log_debug("node %s does not take a lane for copies: %s", p->name, err_name(rc));
	hang_up(p);
	a->failures++;
	a->call_at = clock_deadline(a->backoff_ms * CLOCK_NS_PER_MS);
	a->backoff_ms = 2 * a->backoff_ms < BACKOFF_MAX_MS ? 2 * a->backoff_ms : BACKOFF_MAX_MS;
}

static void call(struct peer *p)
{
	p->asking.link = link_call(p->net->credentials, p->node, p->asking.failures, &p->where);
	if (!p->asking.link) {
		fail_call(p, -ENOBUFS);
		return;
	}
	p->asking.link->peer = p;
	net_watch(p->net, p->asking.link);
}

static bool ready(struct peer *p)
{
	if (!p->asking.link && clock_now() >= p->asking.call_at)
		call(p);
	return p->asking.ready;
}

static int say_whose(struct peer *p)
{
	uint8_t body[FRAME_BODY_MAX];
	struct wbuf w = wbuf_over(body, sizeof(body));
	struct lane_hello hello = {.from = ""};
	memcpy(hello.from, p->net->self.from, sizeof(hello.from));
	if (!link_token(p->link, LANE_TOKEN, NULL, 0, hello.token))
		return -ENOMEM;
	lane_hello_encode(&hello, &w);
	link_write(p->asking.link, FRAME_LANE, body, w.len);
	return link_flush(p->asking.link);
}

/* 1: the node has taken it. */
static int open_lane(struct peer *p)
{
	struct link *l = p->asking.link;
	struct frame frame;
	int rc = 0;
	if (l->state != LINK_OPEN) {
		rc = link_shake(l, p->net->credentials);
		return rc > 0 ? say_whose(p) : rc;
	}
	rc = link_flush(l);
	if (!rc)
		rc = link_read(l, &frame);
	if (rc <= 0)
		return rc;
	return frame.kind == FRAME_LANE ? lane_begin(p->net, l) : -EPROTO;
}

static void go_on_opening(struct peer *p)
{
	int rc = open_lane(p);
	if (rc < 0) {
		fail_call(p, rc);
		return;
	}
	p->asking.ready = rc > 0;
	net_watch(p->net, p->asking.link);
	if (rc > 0)
		net_busy(p);
}

static void tick(struct peer *p, uint64_t now)
{
	struct asking *a = &p->asking;
	uint64_t patience = max_u64(p->net->timeout, CALL_MS * CLOCK_NS_PER_MS);
	if (a->link && !a->ready && now - a->link->since >= patience)
		fail_call(p, -ETIMEDOUT);
	if (!a->link && !list_empty(&p->ops))
		net_busy(p);
}

/* ---- out --------------------------------------------------------------------------------------------------------- */

static int post(struct peer *p, struct part *part)
{
	(void)p;
	part->sent = part->got = 0;
	return 0;
}

static uint64_t size_of(const struct part *part)
{
	return LANE_REQUEST_BYTES + (part->op->kind == NET_WRITE ? part->len : 0);
}

static struct part *next_unsent(const struct peer *p)
{
	list_for(node, &p->parts) {
		struct part *part = list_entry(node, struct part, link);
		if (part->sent < size_of(part))
			return part;
	}
	return NULL;
}

static int send_request(struct link *l, const struct part *part)
{
	const struct net_op *op = part->op;
	uint8_t bytes[LANE_REQUEST_BYTES];
	struct lane_request request = {op->kind, (uint32_t)part->len, op->ticket.key, op->offset + part->begin};
	lane_request_encode(&request, bytes);
	return link_put(l, bytes + part->sent, sizeof(bytes) - part->sent);
}

static int send_bytes(struct link *l, const struct part *part)
{
	uint64_t at = part->sent - LANE_REQUEST_BYTES;
	return link_put(l, (const uint8_t *)part->op->buf + part->begin + at, part->len - at);
}

/* Bytes, 0: the network takes no more, or there are none. */
static int send_some(struct peer *p)
{
	struct part *part = next_unsent(p);
	int n = !part                             ? 0
		: part->sent < LANE_REQUEST_BYTES ? send_request(p->asking.link, part)
						  : send_bytes(p->asking.link, part);
	if (n > 0)
		part->sent += (uint64_t)n;
	return n;
}

/* ---- in ---------------------------------------------------------------------------------------------------------- */

static int take_answer(struct peer *p, struct part *part)
{
	struct lane_answer answer;
	p->asking.have = 0;
	if (!part || part->sent < size_of(part) ||
	    lane_answer_decode(p->asking.in, part->op->kind, part->len - part->got, &answer))
		return -EPROTO;
	p->asking.left = answer.len;
	if (!answer.len)
		copy_done(part, -(int)answer.rc);
	return 0;
}

static int read_answer(struct peer *p, struct part *part)
{
	struct asking *a = &p->asking;
	int n = link_get(a->link, a->in + a->have, sizeof(a->in) - a->have);
	if (n <= 0)
		return n;
	a->have += (size_t)n;
	int rc = a->have == sizeof(a->in) ? take_answer(p, part) : 0;
	return rc ? rc : n;
}

static int read_bytes(struct peer *p, struct part *part)
{
	struct asking *a = &p->asking;
	int n = link_get(a->link, (uint8_t *)part->op->buf + part->begin + part->got, a->left);
	if (n <= 0)
		return n;
	a->left -= (uint32_t)n;
	part->got += (uint64_t)n;
	if (part->got == part->len)
		copy_done(part, 0);
	return n;
}

static int receive_some(struct peer *p)
{
	struct part *part = list_empty(&p->parts) ? NULL : list_entry(p->parts.next, struct part, link);
	return p->asking.left ? read_bytes(p, part) : read_answer(p, part);
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

/* At most so many bytes: 1: there is more, 0: not now. */
static int move(struct peer *p, int (*some)(struct peer *p))
{
	int n = 1;
	for (uint64_t moved = 0; moved < TURN_BYTES && n > 0; moved += (uint64_t)n) {
		n = some(p);
		if (n <= 0)
			return n;
		p->net->awake_until = clock_deadline(AWAKE_MS * CLOCK_NS_PER_MS);
	}
	return 1;
}

static void push(struct peer *p)
{
	struct link *l = p->asking.link;
	if (!p->asking.ready)
		return;
	l->stuck = false;
	int out = move(p, send_some);
	int rc = out < 0 ? out : link_push(l);
	int in = rc ? rc : move(p, receive_some);
	if (in < 0) {
		lane_ended(p, l, in);
		copy_cut(p, -ECONNRESET);
		return;
	}
	if (in)
		net_read_again(p->net, l);
	if (out)
		net_busy(p);
	net_watch(p->net, l);
}

void asking_ready(struct peer *p)
{
	if (p->asking.ready)
		push(p);
	else
		go_on_opening(p);
}

/* ---- the way ----------------------------------------------------------------------------------------------------- */

static int open_way(struct net *net, const char *provider, struct err *err)
{
	(void)net, (void)provider, (void)err;
	return 0;
}

static void end(struct net *net)
{
	(void)net;
}

static void cut(struct peer *p)
{
	hang_up(p);
}

static void leave(struct peer *p)
{
	answering_end(p);
}

static int expose(struct net_region *region, void *base, uint64_t size, enum net_access access)
{
	(void)size;
	region->base = base;
	region->access = access;
	return RAND_bytes((unsigned char *)&region->ticket.key, sizeof(region->ticket.key)) == 1 ? 0 : -EIO;
}

static void close_region(struct net_region *region)
{
	region->released = !region->pinned;
}

const struct way lane_way = {.open = open_way,
			     .end = end,
			     .reach = reach,
			     .ready = ready,
			     .post = post,
			     .push = push,
			     .tick = tick,
			     .cut = cut,
			     .leave = leave,
			     .expose = expose,
			     .close = close_region};
