#include "format/message/peer_parts.h"
#include "format/tensor/fields.h"

void peer_replica_digests_put(struct wbuf *out, const struct peer_replica_digests *m)
{
	put_id(out, m->id);
	wbuf_u32(out, m->n);
	for (uint32_t i = 0; i < m->n; i++) {
		wbuf_u64(out, m->of[i].set);
		wbuf_u64(out, m->of[i].sum);
		wbuf_u32(out, m->of[i].pieces);
	}
}

void peer_replica_digests_get(struct rbuf *r, struct peer_replica_digests *m)
{
	m->id = get_id(r);
	m->n = rbuf_u32(r);
	if (m->n > PEER_REPLICA_DIGESTS_MAX)
		r->failed = true;
	for (uint32_t i = 0; !r->failed && i < m->n; i++) {
		m->of[i].set = rbuf_u64(r);
		m->of[i].sum = rbuf_u64(r);
		m->of[i].pieces = rbuf_u32(r);
	}
}

int peer_replica_digests_check(const struct peer_replica_digests *m, struct err *err)
{
	for (uint32_t i = 0; i < m->n; i++)
		if (!m->of[i].pieces || m->of[i].pieces > REGISTRATION_PIECES_MAX)
			return peer_bad(PEER_REPLICA_DIGESTS, err, "pieces", m->of[i].pieces);
	return peer_check_id(PEER_REPLICA_DIGESTS, m->id, false, err);
}

void peer_compare_put(struct wbuf *out, const struct peer_compare *m)
{
	put_id(out, m->id);
	wbuf_u64(out, m->set);
	wbuf_u32(out, m->first);
	wbuf_u32(out, m->count);
}

void peer_compare_get(struct rbuf *r, struct peer_compare *m)
{
	m->id = get_id(r);
	m->set = rbuf_u64(r);
	m->first = rbuf_u32(r);
	m->count = rbuf_u32(r);
}

int peer_compare_check(uint16_t type, const struct peer_compare *m, struct err *err)
{
	if (!m->count || m->count > REGISTRATION_PIECES_MAX || m->first > REGISTRATION_PIECES_MAX - m->count)
		return peer_bad(type, err, "pieces", m->count);
	return peer_check_id(type, m->id, false, err);
}

void peer_compared_put(struct wbuf *out, const struct peer_compared *m)
{
	peer_compare_put(out, &m->ask);
	wbuf_u32(out, m->n);
	for (uint32_t i = 0; i < m->n; i++) {
		wbuf_u32(out, m->of[i].of);
		wbuf_u64(out, m->of[i].sum);
	}
	wbuf_str(out, m->name);
}

void peer_compared_get(struct rbuf *r, struct peer_compared *m)
{
	peer_compare_get(r, &m->ask);
	m->n = rbuf_u32(r);
	if (m->n > PEER_COMPARED_MAX)
		r->failed = true;
	for (uint32_t i = 0; !r->failed && i < m->n; i++) {
		m->of[i].of = rbuf_u32(r);
		m->of[i].sum = rbuf_u64(r);
	}
	get_text(r, m->name, sizeof(m->name));
}

int peer_compared_check(const struct peer_compared *m, struct err *err)
{
	uint32_t end = m->ask.count == 1 ? RANK_MAX : PEER_COMPARE_PARTS;
	for (uint32_t i = 0; i < m->n; i++)
		if (m->of[i].of >= end)
			return peer_bad(PEER_COMPARED, err, m->ask.count == 1 ? "rank" : "part", m->of[i].of);
	return peer_compare_check(PEER_COMPARED, &m->ask, err);
}
