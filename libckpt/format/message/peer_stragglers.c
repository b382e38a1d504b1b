/* Parts of messages between nodes that say who is late again and again. */
#include "format/message/peer_parts.h"

#include "format/tensor/fields.h"

void peer_pace_put(struct wbuf *out, const struct peer_pace *m)
{
	wbuf_u64(out, m->clock_ns);
	wbuf_u32(out, m->n);
	for (uint32_t i = 0; i < m->n; i++) {
		wbuf_u32(out, m->of[i].rank);
		wbuf_u64(out, m->of[i].step);
		wbuf_u64(out, m->of[i].waited_ns);
		wbuf_u64(out, m->of[i].left);
	}
}

void peer_pace_get(struct rbuf *r, struct peer_pace *m)
{
	m->clock_ns = rbuf_u64(r);
	m->n = rbuf_u32(r);
	if (m->n > WIRE_LOCAL_MAX)
		r->failed = true;
	for (uint32_t i = 0; !r->failed && i < m->n; i++) {
		m->of[i].rank = rbuf_u32(r);
		m->of[i].step = rbuf_u64(r);
		m->of[i].waited_ns = rbuf_u64(r);
		m->of[i].left = rbuf_u64(r);
	}
}

int peer_pace_check(const struct peer_pace *m, struct err *err)
{
	for (uint32_t i = 0; i < m->n; i++)
		if (m->of[i].rank >= RANK_MAX || (i && m->of[i].rank <= m->of[i - 1].rank))
			return peer_bad(PEER_PACE, err, "rank", m->of[i].rank);
	return 0;
}

void peer_stragglers_put(struct wbuf *out, const struct peer_stragglers *m)
{
	wbuf_u32(out, m->epoch);
	wbuf_u32(out, m->n);
	for (uint32_t i = 0; i < m->n; i++) {
		const struct peer_straggler *s = &m->of[i];
		wbuf_u8(out, s->whole);
		wbuf_u32(out, s->rank);
		wbuf_u32(out, s->node);
		wbuf_u32(out, s->ratio);
		wbuf_u64(out, s->lasted_ns);
		wbuf_u64(out, s->lost_ns);
	}
	wbuf_u32(out, m->nown);
	for (uint32_t i = 0; i < m->nown; i++) {
		const struct peer_own_part *o = &m->own[i];
		wbuf_u32(out, o->rank);
		wbuf_u8(out, o->late);
		wbuf_u32(out, o->own);
		wbuf_u32(out, o->ratio);
		wbuf_u32(out, o->cost);
	}
}

static void get_own_parts(struct rbuf *r, struct peer_stragglers *m)
{
	m->nown = rbuf_u32(r);
	if (m->nown > WIRE_LOCAL_MAX)
		r->failed = true;
	for (uint32_t i = 0; !r->failed && i < m->nown; i++) {
		struct peer_own_part *o = &m->own[i];
		o->rank = rbuf_u32(r);
		o->late = get_bool(r);
		o->own = rbuf_u32(r);
		o->ratio = rbuf_u32(r);
		o->cost = rbuf_u32(r);
	}
}

void peer_stragglers_get(struct rbuf *r, struct peer_stragglers *m)
{
	m->epoch = rbuf_u32(r);
	m->n = rbuf_u32(r);
	if (m->n > PEER_STRAGGLERS_MAX)
		r->failed = true;
	for (uint32_t i = 0; !r->failed && i < m->n; i++) {
		struct peer_straggler *s = &m->of[i];
		s->whole = get_bool(r);
		s->rank = rbuf_u32(r);
		s->node = rbuf_u32(r);
		s->ratio = rbuf_u32(r);
		s->lasted_ns = rbuf_u64(r);
		s->lost_ns = rbuf_u64(r);
	}
	get_own_parts(r, m);
}

static int check_own_part(const struct peer_own_part *o, struct err *err)
{
	if (o->rank >= RANK_MAX)
		return peer_bad(PEER_STRAGGLERS, err, "rank", o->rank);
	if (o->own > PEER_SHARE || o->cost > o->own)
		return peer_bad(PEER_STRAGGLERS, err, "own part", o->own);
	return 0;
}

int peer_stragglers_check(const struct peer_stragglers *m, struct err *err)
{
	int rc = 0;
	if (!m->epoch || m->epoch > EPOCH_MAX)
		return peer_bad(PEER_STRAGGLERS, err, "epoch", m->epoch);
	for (uint32_t i = 0; i < m->n; i++) {
		const struct peer_straggler *s = &m->of[i];
		if (s->rank >= RANK_MAX || (s->whole && s->rank))
			return peer_bad(PEER_STRAGGLERS, err, "rank", s->rank);
		if (s->lost_ns > s->lasted_ns)
			return peer_bad(PEER_STRAGGLERS, err, "cost", s->lost_ns);
	}
	for (uint32_t i = 0; !rc && i < m->nown; i++)
		rc = check_own_part(&m->own[i], err);
	return rc;
}
