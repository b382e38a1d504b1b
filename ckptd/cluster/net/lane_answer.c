/* The answering end of a lane: one request after the other. Memory is looked up for each piece, and reached under a pin, so that it is left
 * alone as soon as its region is withdrawn. */
#include "cluster/net/engine.h"

#include "base/clock.h"
#include "base/log.h"
#include "cluster/link/sealer.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

enum { TURN_BYTES = 1 << 20 };

enum answering_state { LISTENING, TAKING, GIVING };

struct answering {
	struct link *link;
	enum answering_state state;
	struct lane_request asked;
	uint64_t at; /* bytes of it that have been moved */
	int rc;
	uint8_t in[LANE_REQUEST_BYTES];
	size_t have;
	uint8_t out[LANE_ANSWER_BYTES + LANE_PIECE]; /* what is to be said; where bytes go that nobody wants */
	size_t out_len, out_at;
};

void lane_ended(struct peer *p, const struct link *l, int rc)
{
	if (rc != -EPROTO || !l->sealed || l->state != LINK_OVER || p->told_changed == p->id)
		return;
	log_warn("copies of node %s: what came was changed on its way, or is not of this connection. It is closed, and "
		 "what was "
		 "under way is copied again. See what stands between the nodes",
		 p->name);
	p->told_changed = p->id;
}

void answering_end(struct peer *p)
{
	if (p->answering) {
		net_bury(p->net, p->answering->link);
		OPENSSL_cleanse(p->answering->out, sizeof(p->answering->out));
	}
	free(p->answering);
	p->answering = NULL;
}

static bool is_of_session(const struct peer *p, const struct lane_hello *hello)
{
	uint8_t token[LINK_TOKEN];
	bool same = p->link && link_token(p->link, LANE_TOKEN, NULL, 0, token) &&
		    !CRYPTO_memcmp(token, hello->token, sizeof(token));
	OPENSSL_cleanse(token, sizeof(token));
	return same;
}

/* It opens one only when it has none: the former one is over. */
bool answering_take(struct net *net, struct link *l, const struct frame *frame)
{
	struct lane_hello hello;
	struct peer *p = lane_hello_decode(frame->body, frame->len, &hello) ? NULL : peer_proved(net, l, hello.from);
	if (!p || net->way != &lane_way || !is_of_session(p, &hello))
		return false;
	struct answering *a = calloc(1, sizeof(*a));
	if (!a)
		return false;
	answering_end(p);
	a->link = l;
	l->peer = p;
	p->answering = a;
	link_write(l, FRAME_LANE, NULL, 0);
	answering_ready(p);
	return true;
}

/* ---- what is said ------------------------------------------------------------------------------------------------ */

static void stage(struct answering *a, int rc, uint32_t len)
{
	struct lane_answer answer = {(uint32_t)-rc, len};
	lane_answer_encode(&answer, a->out);
	a->out_at = 0;
	a->out_len = LANE_ANSWER_BYTES;
}

static int say(struct answering *a)
{
	int n = link_put(a->link, a->out + a->out_at, a->out_len - a->out_at);
	if (n > 0)
		a->out_at += (size_t)n;
	return n;
}

/* What the network has not taken of a piece is copied: its region may be withdrawn before it does. */
static void stage_rest(struct answering *a, const uint8_t *from, size_t len)
{
	memcpy(a->out + a->out_len, from, len);
	a->out_len += len;
}

/* A piece, from where it is. */
static int say_piece(struct answering *a, const uint8_t *from, size_t len)
{
	size_t at = 0;
	stage(a, 0, (uint32_t)len);
	int n = say(a);
	if (a->out_at == a->out_len)
		while (at < len && (n = link_put(a->link, from + at, len - at)) > 0)
			at += (size_t)n;
	if (at == len)
		return (int)len;
	stage_rest(a, from + at, len - at);
	return n;
}

/* Of a link that seals no more than it takes whole. */
static uint64_t piece_max(const struct link *l)
{
	return l->sealed ? SEALER_BYTES : LANE_PIECE;
}

/* The next piece of what is read. */
static int give(struct peer *p, struct answering *a)
{
	struct net_region *region;
	uint64_t len = min_u64(a->asked.len - a->at, piece_max(a->link));
	if (!len) {
		a->state = LISTENING;
		return 1;
	}
	int n = link_room(a->link, LANE_ANSWER_BYTES + len);
	if (n <= 0)
		return n;
	const uint8_t *from = region_pin(p, &a->asked, a->at, len, &region, &a->rc);
	if (!from) {
		stage(a, a->rc, 0);
		a->state = LISTENING;
		return 1;
	}
	n = say_piece(a, from, len);
	region_unpin(region);
	a->at += len;
	return n;
}

/* ---- what comes -------------------------------------------------------------------------------------------------- */

static int hear(struct answering *a)
{
	int n = link_get(a->link, a->in + a->have, sizeof(a->in) - a->have);
	if (n <= 0)
		return n;
	a->have += (size_t)n;
	if (a->have < sizeof(a->in))
		return n;
	a->have = a->at = 0;
	a->rc = 0;
	int rc = lane_request_decode(a->in, &a->asked);
	a->state = a->asked.kind == NET_WRITE ? TAKING : GIVING;
	return rc ? rc : n;
}

/* Bytes for a region that is gone are read, too: requests stand behind them. */
static int take(struct peer *p, struct answering *a)
{
	struct net_region *region;
	uint64_t left = a->asked.len - a->at;
	if (!left) {
		stage(a, a->rc, 0);
		a->state = LISTENING;
		return 1;
	}
	uint8_t *to = a->rc ? NULL : region_pin(p, &a->asked, a->at, left, &region, &a->rc);
	int n = to ? link_get(a->link, to, left) : link_get(a->link, a->out, min_u64(left, sizeof(a->out)));
	if (to)
		region_unpin(region);
	if (n > 0)
		a->at += (uint64_t)n;
	return n;
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

static int step(struct peer *p, struct answering *a)
{
	if (a->out_at < a->out_len)
		return say(a);
	switch (a->state) {
	case TAKING:
		return take(p, a);
	case GIVING:
		return give(p, a);
	default:
		return hear(a);
	}
}

/* 1: there is more, 0: not now. */
static int answer(struct peer *p, struct answering *a)
{
	int n = link_flush(a->link); /* our own hello */
	if (n || a->link->out_len)
		return n;
	n = lane_begin(p->net, a->link); /* the caller says nothing before it has heard us */
	if (n < 0)
		return n;
	for (uint64_t moved = 0; moved < TURN_BYTES; moved += (uint64_t)n) {
		n = step(p, a);
		if (n <= 0)
			break;
		p->net->awake_until = clock_deadline(AWAKE_MS * CLOCK_NS_PER_MS);
	}
	int rc = n < 0 ? n : link_push(a->link);
	return rc ? rc : n > 0;
}

void answering_ready(struct peer *p)
{
	struct answering *a = p->answering;
	int rc = answer(p, a);
	if (rc < 0) {
		lane_ended(p, a->link, rc);
		answering_end(p);
		return;
	}
	if (rc)
		net_read_again(p->net, a->link);
	net_watch(p->net, a->link);
}
