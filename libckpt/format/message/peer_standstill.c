/* Parts of messages between nodes that say where ranks are which give no heartbeat. */
#include "format/message/peer_parts.h"

#include "format/tensor/dtype.h"
#include "format/tensor/fields.h"

static void put_suspect(struct wbuf *out, const struct suspect *s)
{
	wbuf_u32(out, s->rank);
	wbuf_u8(out, s->stopped);
	wbuf_u64(out, s->is.beat_ns);
	wbuf_u64(out, s->is.step);
	wbuf_u8(out, s->is.in_collective);
	wbuf_u64(out, s->is.collective);
	wbuf_u64(out, s->is.bytes);
	wbuf_str(out, s->is.op);
	wbuf_u8(out, s->is.dtype);
}

static void get_suspect(struct rbuf *r, struct suspect *s)
{
	s->rank = rbuf_u32(r);
	s->stopped = get_bool(r);
	s->is.beat_ns = rbuf_u64(r);
	s->is.step = rbuf_u64(r);
	s->is.in_collective = get_bool(r);
	s->is.collective = rbuf_u64(r);
	s->is.bytes = rbuf_u64(r);
	get_text(r, s->is.op, sizeof(s->is.op));
	s->is.dtype = rbuf_u8(r);
}

void peer_silent_put(struct wbuf *out, const struct peer_silent *m)
{
	wbuf_u32(out, m->n);
	for (uint32_t i = 0; i < m->n; i++)
		put_suspect(out, &m->of[i]);
}

void peer_silent_get(struct rbuf *r, struct peer_silent *m)
{
	m->n = rbuf_u32(r);
	if (m->n > WIRE_LOCAL_MAX)
		r->failed = true;
	for (uint32_t i = 0; !r->failed && i < m->n; i++)
		get_suspect(r, &m->of[i]);
}

int peer_silent_check(const struct peer_silent *m, struct err *err)
{
	for (uint32_t i = 0; i < m->n; i++) {
		if (m->of[i].rank >= RANK_MAX || (i && m->of[i].rank <= m->of[i - 1].rank))
			return peer_bad(PEER_SILENT, err, "rank", m->of[i].rank);
		if (m->of[i].is.dtype >= DTYPE_END)
			return peer_bad(PEER_SILENT, err, "dtype", m->of[i].is.dtype);
	}
	return 0;
}

void peer_standstill_put(struct wbuf *out, const struct peer_standstill *m)
{
	wbuf_u32(out, m->epoch);
	wbuf_u8(out, m->is);
	wbuf_u8(out, m->named);
	wbuf_u32(out, m->rank);
	wbuf_u32(out, m->node);
	wbuf_u64(out, m->silent_ns);
	wbuf_str(out, m->text);
}

void peer_standstill_get(struct rbuf *r, struct peer_standstill *m)
{
	m->epoch = rbuf_u32(r);
	m->is = get_bool(r);
	m->named = get_bool(r);
	m->rank = rbuf_u32(r);
	m->node = rbuf_u32(r);
	m->silent_ns = rbuf_u64(r);
	get_text(r, m->text, sizeof(m->text));
}

int peer_standstill_check(const struct peer_standstill *m, struct err *err)
{
	if (!m->epoch || m->epoch > EPOCH_MAX)
		return peer_bad(PEER_STANDSTILL, err, "epoch", m->epoch);
	return m->rank >= RANK_MAX ? peer_bad(PEER_STANDSTILL, err, "rank", m->rank) : 0;
}
